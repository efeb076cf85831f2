"""`floodmark bench ...`: throughput and latency of a broker, measured with our Python client.

The results include the client's own cost. bench/ in the source tree measures the broker alone.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import click

from floodmark.cli.errors import CliError
from floodmark.cli.help import Group
from floodmark.cli.options import F, client_options, output_option, pairs
from floodmark.cli.output import JSON, output_columns, print_json, print_table
from floodmark.cli.progress import Progress
from floodmark.cli.session import run_client
from floodmark.cli.target import Target
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.errors import KafkaError
from floodmark.client.producer.batch import Delivery
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from floodmark.clock import Clock, SystemClock

# Timing every record would cost more than sending it.
SAMPLE_EVERY = 50
# Counts from the last send. Records that take longer count as lost, not late.
REST_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class BenchOptions:
    target: Target
    properties: tuple[str, ...]
    partitions: int
    topic: str | None
    record_size: int
    output: str

    def producer(self) -> Producer:
        return Producer(*self._shared().resolve(ProducerSettings))

    def consumer(self) -> Consumer:
        shared = self._shared()
        usual = {"auto.offset.reset": "earliest", "max.poll.records": "5000"}
        return Consumer(*shared.sharing({**usual, **shared.shared}).resolve(ConsumerSettings))

    def admin(self) -> Admin:
        return Admin(*self._shared().resolve(ClientSettings))

    def _shared(self) -> Target:
        """Producer and consumer take the same -X settings."""
        return self.target.sharing(pairs(self.properties))


Result: TypeAlias = dict[str, str | int | float | None]
"""The measurements to print, by name."""

Bench: TypeAlias = Callable[..., Awaitable[Result]]
"""Takes the options, the topic, and the benchmark's own numbers."""


@click.group(
    cls=Group,
    examples=[
        "floodmark bench produce",
        "floodmark bench latency --rate 1000 --seconds 5",
    ],
)
def bench() -> None:
    """Measure a broker with Floodmark's own client."""


def bench_options(function: F) -> F:
    for option in (
        client_options,
        output_option,
        click.option(
            "-X",
            "--property",
            "properties",
            multiple=True,
            metavar="NAME=VALUE",
            help="Client setting, such as linger.ms=20.",
        ),
        click.option(
            "--partitions",
            "-p",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Partitions of the temporary topic.",
        ),
        click.option("--topic", help="Topic to use. Default: a temporary topic."),
        click.option(
            "--record-size",
            type=click.IntRange(1),
            default=100,
            show_default=True,
            help="Value size in bytes.",
        ),
    ):
        function = option(function)
    return function


records_option = click.option(
    "--records",
    "--num-records",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Number of records.",
)


@bench.command(
    examples=[
        "floodmark bench produce --records 1000000 --record-size 1000",
        "floodmark bench produce -X compression.type=zstd -X linger.ms=20",
    ]
)
@records_option
@bench_options
def produce(records: int, **options: Any) -> None:
    """Send records as fast as the broker accepts them."""
    _run(BenchOptions(**options), _bench_produce, records)


@bench.command(examples=["floodmark bench consume --partitions 4 -o json"])
@records_option
@bench_options
def consume(records: int, **options: Any) -> None:
    """Produce records, then read them as fast as the broker serves them."""
    _run(BenchOptions(**options), _bench_consume, records)


@bench.command(examples=["floodmark bench latency --rate 500 --seconds 30 --topic orders"])
@click.option(
    "--rate", type=click.IntRange(1), default=200, show_default=True, help="Records per second."
)
@click.option("--seconds", type=click.IntRange(1), default=10, show_default=True, help="Duration.")
@bench_options
def latency(rate: int, seconds: int, **options: Any) -> None:
    """Measure the time from send to receipt at a steady rate."""
    _run(BenchOptions(**options), _bench_latency, rate, seconds)


def _run(options: BenchOptions, run: Bench, *arguments: int) -> None:
    result = run_client(_with_topic(options, run, *arguments))
    if options.output == JSON:
        print_json(result)
    else:
        print_table(*output_columns([result]))


async def _with_topic(options: BenchOptions, run: Bench, *arguments: int) -> Result:
    async with _topic(options) as topic:
        return await run(options, topic, *arguments)


@asynccontextmanager
async def _topic(options: BenchOptions) -> AsyncIterator[str]:
    """The topic the user named, or a temporary one for this run."""
    if options.topic:
        yield options.topic
        return
    name = f"floodmark-bench-{os.getpid()}-{random.randrange(10**6)}"
    async with options.admin() as admin:
        await admin.create_topic(NewTopic(name, options.partitions))
        try:
            yield name
        finally:
            await admin.delete_topics([name])


async def _bench_produce(options: BenchOptions, topic: str, records: int) -> Result:
    clock = SystemClock()
    async with options.producer() as producer:
        # The first record also pays for fetching metadata and the producer id.
        await producer.send_and_wait(topic, b"warm")
        started_ms = clock.monotonic_ms()
        times_ms = await _send_many(producer, topic, records, options.record_size, clock)
        elapsed_ms = clock.monotonic_ms() - started_ms
    return _result("produce", records, options.record_size, elapsed_ms, times_ms)


async def _send_many(
    producer: Producer, topic: str, records: int, record_size: int, clock: Clock
) -> list[float]:
    """Sends all records, waits for them, and returns sampled acknowledgement times."""
    value = random.randbytes(record_size)
    progress = Progress("records sent")
    times_ms: list[float] = []
    failures: list[KafkaError] = []

    def note(sent_ms: float, delivery: Delivery) -> None:
        try:
            delivery.result()
            times_ms.append(clock.monotonic_ms() - sent_ms)
        except KafkaError as error:
            failures.append(error)

    for number in range(records):
        delivery = await producer.send(topic, value)
        if number % SAMPLE_EVERY == 0:
            delivery.add_done_callback(partial(note, clock.monotonic_ms()))
            progress.update(number, records)
    await producer.flush()
    progress.finish()
    for error in failures:
        raise error
    return times_ms


async def _bench_consume(options: BenchOptions, topic: str, records: int) -> Result:
    clock = SystemClock()
    async with options.producer() as producer:
        await _send_many(producer, topic, records, options.record_size, clock)
    async with options.consumer() as consumer:
        await consumer.assign(await consumer.partitions_of(topic))
        consumer.seek_to_beginning()
        progress = Progress("records read")
        started_ms = clock.monotonic_ms()
        count = 0
        while count < records:
            count += sum(map(len, (await consumer.poll()).values()))
            progress.update(count, records)
        elapsed_ms = clock.monotonic_ms() - started_ms
        progress.finish()
    return _result("consume", count, options.record_size, elapsed_ms, [])


async def _bench_latency(options: BenchOptions, topic: str, rate: int, seconds: int) -> Result:
    clock = SystemClock()
    total = rate * seconds
    sent_ms: dict[bytes, float] = {}
    times_ms: list[float] = []
    padding = random.randbytes(max(0, options.record_size - 8))
    async with options.producer() as producer, options.consumer() as consumer:
        partitions = await consumer.partitions_of(topic)
        await consumer.assign(partitions)
        consumer.seek_to_end()
        for partition in partitions:
            await consumer.position(partition)
        receiving = asyncio.create_task(_receive(consumer, total, sent_ms, times_ms, clock))
        try:
            started_ms = clock.monotonic_ms()
            for number in range(total):
                due_ms = started_ms + number * 1000 / rate
                await asyncio.sleep(max(0.0, due_ms - clock.monotonic_ms()) / 1000)
                key = number.to_bytes(8, "big")
                sent_ms[key] = clock.monotonic_ms()
                await producer.send(topic, key + padding)
            await producer.flush()
            await _wait_for_rest(receiving, sent_ms)
            elapsed_ms = clock.monotonic_ms() - started_ms
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
    return _result("latency", total, options.record_size, elapsed_ms, times_ms)


async def _wait_for_rest(receiving: asyncio.Task[None], missing: dict[bytes, float]) -> None:
    try:
        async with asyncio.timeout(REST_TIMEOUT_S):
            await receiving
    except TimeoutError:
        raise CliError(
            f"{len(missing)} records did not come back in {REST_TIMEOUT_S} s",
            why="they were acknowledged, but the consumer never received them",
            hint="check the broker's log, or lower --rate",
        ) from None


async def _receive(
    consumer: Consumer,
    total: int,
    sent_ms: dict[bytes, float],
    times_ms: list[float],
    clock: Clock,
) -> None:
    progress = Progress("records received")
    while len(times_ms) < total:
        polled = await consumer.poll()
        now_ms = clock.monotonic_ms()
        for records in polled.values():
            for record in records:
                sent = sent_ms.pop((record.value or b"")[:8], None)
                if sent is not None:
                    times_ms.append(now_ms - sent)
        progress.update(len(times_ms), total)
    progress.finish()


def _result(
    case: str, records: int, record_size: int, elapsed_ms: float, times_ms: list[float]
) -> Result:
    if elapsed_ms <= 0:
        raise CliError("the run was too short to measure", hint="raise --records")
    seconds = elapsed_ms / 1000
    ordered = sorted(times_ms)
    return {
        "case": case,
        "records": records,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / seconds),
        "mib_per_second": round(records * record_size / seconds / 1024 / 1024, 2),
        "p50_ms": _percentile(ordered, 0.5),
        "p99_ms": _percentile(ordered, 0.99),
        "max_ms": _percentile(ordered, 1),
    }


def _percentile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2)
