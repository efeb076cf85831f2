"""Sends and reads the scenario's records with confluent-kafka, for tests of other things too."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from confluent_kafka import Consumer, Message, Producer

from kit import scenario


def produce_run(bootstrap: str, topic: str, run: scenario.Run) -> None:
    """Send the records of one run to partition 0 and check the offsets they got."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": run.codec,
            "enable.idempotence": run.idempotent,
            "linger.ms": 50,
        }
    )
    delivered: list[int | None] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None
        delivered.append(message.offset())

    for record in run.records:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=0,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
            on_delivery=on_delivery,
        )
    assert producer.flush(30) == 0
    assert delivered == list(run.numbers)


@contextmanager
def assigned_consumer(bootstrap: str, group: str = "unused") -> Iterator[Consumer]:
    """A consumer for assign() that joins no group."""
    # librdkafka insists on a group id; with assign() and without commits no group is joined.
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def read_to_the_end(
    consumer: Consumer, first: int, base_ms: int, end: int = scenario.RECORD_COUNT
) -> None:
    """Check every record from number `first` to the last, byte for byte."""
    for number in range(first, end):
        message = consumer.poll(30)
        assert message is not None, f"record {number} did not come"
        assert message.error() is None
        _, timestamp_ms = message.timestamp()
        headers = cast("list[tuple[str, bytes]]", message.headers() or [])
        got = scenario.Expected(message.key(), message.value(), tuple(headers), timestamp_ms)
        assert message.offset() == number
        assert got == scenario.expected_record(number, base_ms)
