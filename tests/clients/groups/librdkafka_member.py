"""One member of a group: BOOTSTRAP GROUP PATTERN STRATEGY; see tests/group_kit/member.py."""

import json
import signal
import sys

from confluent_kafka import Consumer, KafkaException, TopicPartition

_ASSIGNORS = {"range": "range", "roundrobin": "roundrobin", "cooperative": "cooperative-sticky"}


def main(bootstrap: str, group: str, pattern: str, strategy: str) -> None:
    asked_to_leave = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_leave.append(True))
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 500,
        "log_level": 0,
    }
    if strategy == "consumer":
        settings |= {"group.protocol": "consumer"}
    else:
        settings |= {
            "partition.assignment.strategy": _ASSIGNORS[strategy],
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
        }
    consumer = Consumer(settings)
    consumer.subscribe([pattern], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not asked_to_leave:
        consume(consumer)
    consumer.close()
    emit(event="closed")


def consume(consumer: Consumer) -> None:
    messages = [m for m in consumer.consume(500, 0.1) if m.error() is None]
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition = message.topic(), message.partition()
        emit(event="record", partition=f"{topic}/{partition}", offset=message.offset())
        ends[topic, partition] = message.offset() + 1
    if ends:
        commit(consumer, [TopicPartition(*key, end) for key, end in ends.items()])


def commit(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """An expelled member goes on: its commit changed nothing, and it joins again."""
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as expelled:
        print(expelled, file=sys.stderr)


def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
    emit(event="assigned", partitions=[f"{at.topic}/{at.partition}" for at in partitions])


def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
    emit(event="revoked", partitions=[f"{at.topic}/{at.partition}" for at in partitions])


def emit(**event: object) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
