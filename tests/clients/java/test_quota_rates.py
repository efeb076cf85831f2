"""Clients with a quota get it: Java's and librdkafka's producers and consumers, all at once.

Others are not slowed meanwhile. A client may take the quota of ten seconds at once, and is paced
afterwards: in the short run of the gate a late second counts more than in the minute of `-m soak`.
"""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.security.quota_entities import QuotaEntity
from kit.broker import Broker, floodmark_broker
from kit.jars import KAFKA_4, jars
from kit.java_program import run_java
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

QUOTA = 2_000_000
VALUE = bytes(1000)
SOURCE = Path(__file__).with_name("QuotaClient.java")
SLOWEST_ALLOWED_S = 1.0
TARGETS = ("java", "librdkafka")
LEAST_OF_OTHERS = 50
"""Records that somebody without a quota sends and waits for, per second."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    require_tool("java", "javac", "mvn")
    with floodmark_broker(tmp_path) as running:
        yield running


async def prepare(broker: Broker, seconds: int) -> None:
    async with Admin(broker.bootstrap) as admin:
        names = ("read", "other", *(f"{target}-written" for target in TARGETS))
        await admin.create_topics([NewTopic(name, 1, 1) for name in names])
        for target in TARGETS:
            for mode, quota in (("produce", "producer"), ("consume", "consumer")):
                entity = QuotaEntity(client_id=f"{target}-{mode}")
                await admin.alter_client_quotas(entity, {f"{quota}_byte_rate": QUOTA})
    # In small batches: a fetch ends with a part of a batch, which counts and cannot be used.
    small = {"batch.size": 16_384, "linger.ms": 50}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **small})
    for _ in range(QUOTA // len(VALUE) * seconds * 3 // 2):
        while True:
            try:
                producer.produce("read", VALUE)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def java(broker: Broker, mode: str, seconds: int) -> int:
    topic = "java-written" if mode == "produce" else "read"
    libraries = jars(f"org.apache.kafka:kafka-clients:{KAFKA_4}", "org.slf4j:slf4j-nop:1.7.36")
    timeout_s = seconds + 60
    return int(
        run_java(
            SOURCE, libraries, broker.bootstrap, topic, str(seconds), mode, timeout_s=timeout_s
        )
    )


def librdkafka(broker: Broker, mode: str, seconds: int) -> int:
    given = {"bootstrap.servers": broker.bootstrap, "client.id": f"librdkafka-{mode}"}
    return rdkafka_produces(given, seconds) if mode == "produce" else rdkafka_reads(given, seconds)


def rdkafka_produces(given: dict[str, str], seconds: int) -> int:
    acknowledged = 0
    deadline = time.monotonic() + seconds

    def delivered(error: object, _message: Message) -> None:
        nonlocal acknowledged
        if error is None and time.monotonic() < deadline:
            acknowledged += len(VALUE)

    producer = Producer({**given, "on_delivery": delivered})
    while time.monotonic() < deadline:
        try:
            for _ in range(100):
                producer.produce("librdkafka-written", VALUE)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    producer.purge()
    producer.flush(5)
    return acknowledged


def rdkafka_reads(given: dict[str, str], seconds: int) -> int:
    read = 0
    consumer = Consumer({**given, "group.id": "quota"})
    consumer.assign([TopicPartition("read", 0, OFFSET_BEGINNING)])
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not read:
            deadline = time.monotonic() + seconds  # from the first record on
        read += sum(len(message.value()) for message in consumer.consume(1000, 0.1))
    consumer.close()
    return read


def others(broker: Broker, seconds: int) -> tuple[int, float]:
    """How many records somebody without a quota sends one by one, and the longest wait for one."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    count, slowest_s = 0, 0.0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        begin = time.monotonic()
        producer.produce("other", b"x")
        assert producer.flush(20) == 0
        slowest_s = max(slowest_s, time.monotonic() - begin)
        count += 1
        time.sleep(0.01)
    return count, slowest_s


@pytest.mark.parametrize(
    ("seconds", "share"), [(15, 0.15), pytest.param(60, 0.1, marks=pytest.mark.soak)]
)
def test_clients_get_their_quota_and_others_all_they_want(broker, seconds, share):
    asyncio.run(prepare(broker, seconds))
    with ThreadPoolExecutor(5) as pool:
        futures = {
            f"{target.__name__} {mode}": pool.submit(target, broker, mode, seconds)
            for target in (java, librdkafka)
            for mode in ("produce", "consume")
        }
        count, slowest_s = pool.submit(others, broker, seconds).result()
        rates = {name: future.result() / seconds for name, future in futures.items()}
    print({name: f"{rate / QUOTA:.3f}" for name, rate in rates.items()}, count, slowest_s)
    for name, rate in rates.items():
        assert rate == pytest.approx(QUOTA, rel=share), name
    assert slowest_s < SLOWEST_ALLOWED_S
    assert count > seconds * LEAST_OF_OTHERS / 2
