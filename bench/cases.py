"""The cases P1 to P5: what is done, what is measured, and the bound that issue 3 sets.

Each case is a function of a running server that gives its measures; run.py repeats and compares.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import load
import wire
from batches import LZ4, NO_PRODUCER, RECORDS_PER_BATCH, make_batch
from servers import Server
from start_cases import p4_start, p5_many_partitions

_CONNECTIONS = 4


@dataclass(frozen=True)
class Measure:
    """One number of a case. A bound is a share of Kafka's that ours may take at most (`ratio`) or
    must reach (`least_ratio`), or a limit of our own."""

    label: str
    unit: str
    ratio: float | None = None
    limit: float | None = None
    least_ratio: float | None = None


@dataclass(frozen=True)
class Case:
    title: str
    run: Callable[[Server, float], dict[str, float]]
    measures: dict[str, Measure]
    warm_up_rounds: int = 2  # unmeasured: a JVM compiles what is hot


def _batched_produce(
    server: Server, messages: int, codec: int, idempotent: bool
) -> dict[str, float]:
    requests_each = max(messages // RECORDS_PER_BATCH // _CONNECTIONS, 1)
    with server.topic(_CONNECTIONS) as topic_id:
        connections = server.connect(_CONNECTIONS)
        frames = []
        for partition, connection in enumerate(connections):
            producer = wire.new_producer(connection) if idempotent else NO_PRODUCER
            batch = make_batch(codec=codec, producer=producer)
            frames.append(wire.produce(topic_id, partition, batch))
            load.settle(connection, frames[-1])
        patch = load.sequence_patcher(RECORDS_PER_BATCH, 1) if idempotent else None
        cpu, start = server.process.cpu_seconds(), time.perf_counter()
        load.pipelined(connections, frames, requests_each, patch)
        elapsed = time.perf_counter() - start
        cpu = server.process.cpu_seconds() - cpu
    sent = requests_each * _CONNECTIONS * RECORDS_PER_BATCH
    return {"cpu": cpu * 1e6 / sent, "rate": sent / elapsed}


def p1_raw(server: Server, scale: float) -> dict[str, float]:
    return _batched_produce(server, int(2_000_000 * scale), 0, idempotent=False)


def p1b_idempotent(server: Server, scale: float) -> dict[str, float]:
    return _batched_produce(server, int(2_000_000 * scale), 0, idempotent=True)


def p1c_lz4(server: Server, scale: float) -> dict[str, float]:
    return _batched_produce(server, int(2_000_000 * scale), LZ4, idempotent=False)


def _synchronous_produce(server: Server, connection_count: int, requests: int) -> dict[str, float]:
    with server.topic(connection_count) as topic_id:
        connections = server.connect(connection_count)
        batch = make_batch(1)
        frames = [wire.produce(topic_id, number, batch) for number in range(connection_count)]
        for connection, frame in zip(connections, frames, strict=True):
            load.settle(connection, frame)
        cpu = server.process.cpu_seconds()
        latencies = load.synchronous(connections, frames, requests)
        cpu = server.process.cpu_seconds() - cpu
    return {"cpu": cpu * 1e6 / len(latencies), **_percentiles(latencies)}


def p1s_one(server: Server, scale: float) -> dict[str, float]:
    return _synchronous_produce(server, 1, int(30_000 * scale))


def p1s_many(server: Server, scale: float) -> dict[str, float]:
    return _synchronous_produce(server, 32, int(100_000 * scale))


def p2_fetch(server: Server, scale: float) -> dict[str, float]:
    batches, passes = max(int(5_000 * scale), 100), 20
    with server.topic(1) as topic_id:
        producer, consumer = server.connect(2)
        frame = wire.produce(topic_id, 0, make_batch())
        load.settle(producer, frame)
        load.pipelined([producer], [frame], batches - 1)
        end_offset = batches * RECORDS_PER_BATCH
        fetch = wire.fetch(topic_id)
        load.fetch_pass(consumer, fetch, end_offset)  # finds the tail in the page cache
        cpu, start = server.process.cpu_seconds(), time.perf_counter()
        for _ in range(passes):
            load.fetch_pass(consumer, fetch, end_offset)
        elapsed = time.perf_counter() - start
        cpu = server.process.cpu_seconds() - cpu
    return {"cpu": cpu * 1e6 / (end_offset * passes), "rate": end_offset * passes / elapsed}


def p3_one(server: Server, scale: float) -> dict[str, float]:
    return _end_to_end(server, int(5_000 * scale), partitions=1, per_second=500)


def p3_many(server: Server, scale: float) -> dict[str, float]:
    return _end_to_end(server, int(1_000 * scale), partitions=100, per_second=100)


def _end_to_end(
    server: Server, count: int, *, partitions: int, per_second: int
) -> dict[str, float]:
    warm_up = per_second
    with server.topic(partitions) as topic_id:
        producer, consumer = server.connect(2)
        produce = wire.produce(topic_id, 0, make_batch(1))
        load.settle(producer, produce)
        fetch = wire.fetch(topic_id, partitions)
        cpu = server.process.cpu_seconds()
        route = load.Route(producer, produce, consumer, fetch)
        latencies = load.end_to_end(route, 1, count + warm_up, per_second)
        cpu = server.process.cpu_seconds() - cpu
    return {"cpu": cpu * 1e6 / len(latencies), **_percentiles(latencies[warm_up:])}


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50": cuts[49] * 1e3, "p99": cuts[98] * 1e3}


def _cpu(ratio: float | None = None) -> Measure:
    return Measure("broker CPU per message", "us", ratio=ratio)


_RATE = Measure("messages per second, seen by the load", "/s")

CASES: dict[str, Case] = {
    "P1": Case("produce, batches of 100", p1_raw, {"cpu": _cpu(0.5), "rate": _RATE}, 4),
    "P1b": Case("the same, idempotent", p1b_idempotent, {"cpu": _cpu(0.5), "rate": _RATE}),
    "P1c": Case("the same, lz4", p1c_lz4, {"cpu": _cpu(0.5), "rate": _RATE}),
    "P1s-1": Case(
        "one record per request, 1 connection",
        p1s_one,
        {"cpu": _cpu(), "p50": Measure("p50", "ms"), "p99": Measure("p99", "ms")},
    ),
    "P1s-32": Case(
        "one record per request, 32 connections",
        p1s_many,
        {"cpu": _cpu(0.5), "p50": Measure("p50", "ms"), "p99": Measure("p99", "ms")},
    ),
    "P2": Case("fetch, 20 passes", p2_fetch, {"cpu": _cpu(1.25), "rate": _RATE}),
    "P3": Case(
        "end to end, 500 records a second",
        p3_one,
        {
            "p50": Measure("p50", "ms", ratio=0.5),
            "p99": Measure("p99", "ms", ratio=1.0),
            "cpu": _cpu(),
        },
    ),
    "P3-100": Case(
        "100 records a second, the consumer waits for 100 partitions",
        p3_many,
        {"p50": Measure("p50", "ms"), "p99": Measure("p99", "ms"), "cpu": _cpu()},
    ),
    "P4": Case(
        "start and rest",
        p4_start,
        {
            "first_ack": Measure("process start to first acknowledgement", "s", limit=0.5),
            "idle_rss": Measure("idle memory", "MB", limit=60),
            "idle_cpu": Measure("idle CPU, share of a core", "%", limit=0.5),
        },
        warm_up_rounds=0,  # a start is cold by its nature
    ),
    "P5": Case(
        "1,000 partitions in one request, each written once",
        p5_many_partitions,
        {
            "create": Measure("create", "s"),
            "write": Measure("write", "s"),
            "pause": Measure("longest wait of a second client", "ms", limit=100),
        },
    ),
}
