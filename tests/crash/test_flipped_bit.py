"""A bit of the data folder flips while the broker is down: a client never gets to see it.

Each partition has one flip, in another field of a batch, in an old segment or in the last one. The
client is librdkafka: it gets every record before the damaged batch, an error there, and after a
seek every record behind it.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.producer.producer import Producer
from floodmark.records.batch import BatchHeader, iter_headers
from kit.broker import Broker, start_floodmark

TOPIC = "flips"
RECORDS = 75
POLL_S = 20.0
# Where in a batch: base offset, length, leader epoch, magic, checksum, attributes, last offset
# delta, producer epoch, records.
FIELDS = (6, 10, 15, 16, 18, 22, 26, 52, 70)
PLACES = [(segment, inside) for segment in (0, -1) for inside in FIELDS]
# Small indexes, which are full before a segment is: its bytes cannot be set so low.
TOPIC_CONFIGS = {"segment.index.bytes": "180", "index.interval.bytes": "300"}

SETTINGS = {
    "log.flush.interval.messages": "1",
    "log.flush.offset.checkpoint.interval.ms": "500",
}

CONSUMER_SETTINGS = {"group.id": "reader", "fetch.error.backoff.ms": 10, "fetch.wait.max.ms": 50}


@dataclass(frozen=True)
class Flip:
    """The batch that was damaged, and the batch behind which reading goes on."""

    inside: int
    first_offset: int
    next_offset: int


async def fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(NewTopic(TOPIC, len(PLACES), 1, configs=TOPIC_CONFIGS))
    async with Producer(bootstrap) as producer:
        for number in range(RECORDS):
            for partition in range(len(PLACES)):
                await producer.send(TOPIC, value(partition, number), partition=partition)
            # A batch for each record.
            await producer.flush()


def value(partition: int, number: int) -> bytes:
    return b"%d-%d-" % (partition, number) + b"x" * 100


def flip_bits(data_dir: Path) -> list[Flip]:
    return [
        flip_one(sorted((data_dir / f"{TOPIC}-{partition}").glob("*.log"))[segment], inside)
        for partition, (segment, inside) in enumerate(PLACES)
    ]


def flip_one(path: Path, inside: int) -> Flip:
    data = bytearray(path.read_bytes())
    batches: list[tuple[int, BatchHeader]] = list(iter_headers(data))
    position, header = batches[len(batches) // 2]
    data[position + inside] ^= 1
    path.write_bytes(data)
    return Flip(inside, header.base_offset, header.next_offset)


def check_partition(consumer: Consumer, partition: int, flip: Flip) -> None:
    assert read_until_error(consumer, partition, 0) == flip.first_offset
    # A changed length may hide some batches more.
    offset = flip.next_offset
    while offset < RECORDS and read_until_error(consumer, partition, offset) < RECORDS:
        assert flip.inside in range(8, 12)
        offset += 1


def read_until_error(consumer: Consumer, partition: int, offset: int) -> int:
    """Checks all records from this offset on; where the client is told of damage, or the end."""
    consumer.assign([TopicPartition(TOPIC, partition, offset)])
    while offset < RECORDS:
        message = consumer.poll(POLL_S)
        assert message is not None, f"nothing at offset {offset} of partition {partition}"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError.INVALID_MSG, error
            return offset
        assert message.offset() == offset
        assert message.value() == value(partition, offset)
        offset += 1
    return offset


@pytest.mark.parametrize("stop", ["in order", "kill -9 after a flush"])
def test_a_client_never_sees_a_flipped_bit(tmp_path: Path, stop: str) -> None:
    broker = start_floodmark(tmp_path, SETTINGS)
    try:
        asyncio.run(fill(broker.bootstrap))
        if stop == "in order":
            broker.process.stop()
        else:
            wait_for_checkpoint(broker)
            broker.process.kill()
        flips = flip_bits(broker.data_dir)
        broker = start_floodmark(tmp_path, port=broker.port)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, **CONSUMER_SETTINGS})
        try:
            for partition, flip in enumerate(flips):
                check_partition(consumer, partition, flip)
        finally:
            consumer.close()
        output = broker.process.output()
        assert f"{TOPIC}-0" in output
        assert f"offset {flips[0].first_offset}" in output
    finally:
        broker.process.stop()


def wait_for_checkpoint(broker: Broker) -> None:
    """The recovery point is on the disk: what the flips hit was promised."""
    path = broker.data_dir / "recovery-point-offset-checkpoint"
    wanted = {f"{TOPIC} {partition} {RECORDS}" for partition in range(len(PLACES))}
    broker.process.wait_until(
        lambda: path.exists() and wanted <= set(path.read_text().splitlines()), timeout_s=120
    )
