"""Copies a topic to another, exactly once: consume, produce and commit offsets in transactions.

Run as a program of its own, so that a test can kill it: `python copier.py BOOTSTRAP INPUT OUTPUT`.
It ends when its standard input does.
"""

import os
import sys
import threading

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BATCH = 20
OPERATION_TIMEOUT_S = 30


def main(bootstrap: str, source: str, target: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            copy(bootstrap, source, target)
        except KafkaException as problem:
            # Fatal or not: a new producer recovers, as an application that is restarted does.
            print(f"starting over: {problem}", flush=True)


def copy(bootstrap: str, source: str, target: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "copier",
            "transaction.timeout.ms": 10_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(OPERATION_TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "copier",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )
    consumer.subscribe([source])
    try:
        while True:
            copy_batch(producer, consumer, target)
    finally:
        consumer.close()


def copy_batch(producer: Producer, consumer: Consumer, target: str) -> None:
    messages = [m for m in consumer.consume(BATCH, 0.5) if m.error() is None]
    if not messages:
        return
    producer.begin_transaction()
    try:
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            producer.produce(target, message.value())
            offsets[message.topic(), message.partition()] = message.offset() + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(*key, offset) for key, offset in offsets.items()],
            consumer.consumer_group_metadata(),
            OPERATION_TIMEOUT_S,
        )
        producer.commit_transaction(OPERATION_TIMEOUT_S)
    except KafkaException as problem:
        if problem.args[0].txn_requires_abort():
            producer.abort_transaction(OPERATION_TIMEOUT_S)
        # Positions have run ahead of what was committed: a new consumer starts from there.
        raise


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
