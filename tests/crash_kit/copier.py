"""Consumes, transforms and produces exactly once, in transactions, until it is killed.

Run as a program of its own, so that a test can kill it:
`python copier.py BOOTSTRAP INPUT OUTPUT SEED`. It ends when its standard input does. Some
transactions are aborted on purpose, with records that nobody may ever read.
"""

import os
import sys
import threading
import time
from random import Random

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

GROUP = TRANSACTIONAL_ID = "copier"
ABORTED = b"aborted"
BATCH = 20
OPERATION_TIMEOUT_S = 5
LONGEST_CALL_S = 3 * OPERATION_TIMEOUT_S
ABORTED_SHARE = 0.3
CONNECTION = {
    "retry.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    # By default librdkafka forgets all brokers once each of them is down, but not which one
    # coordinated the group, and waits for it for ever (confluentinc/librdkafka#5511), also with
    # Apache Kafka. Here brokers always come back where they were.
    "metadata.recovery.strategy": "none",
    "topic.metadata.refresh.fast.interval.ms": 50,
    # A coordinator that was missing from the metadata is waited for until they are read again
    # (confluentinc/librdkafka#5511), by default every five minutes.
    "topic.metadata.refresh.interval.ms": 2000,
    "log_level": 0,
}


def transformed(value: bytes) -> bytes:
    return b"copy of " + value


def main(bootstrap: str, source: str, target: str, seed: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    watchdog = Watchdog()
    try:
        copy(bootstrap, source, target, Random(seed), watchdog)
    except KafkaException as problem:
        # Fatal or not: a new process recovers.
        start_over(str(problem))


def start_over(why: str) -> None:
    """As an application that is restarted: nothing of this process is left, not even a thread."""
    print(f"starting over: {why}", flush=True)
    *same, seed = sys.argv[1:]
    os.execv(sys.executable, [sys.executable, __file__, *same, str(int(seed) + 1)])


class Watchdog:
    """Starts over when a call does not return.

    A broker that is gone from the metadata keeps librdkafka 2.16 from ever sending its
    TxnOffsetCommit: it waits for that broker, which was the group's coordinator, to connect. So do
    three refusals to name the coordinator. It never gives up, because nothing checks the time
    (confluentinc/librdkafka#5456).
    """

    def __init__(self) -> None:
        self._fed_at = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def feed(self) -> None:
        self._fed_at = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._fed_at < LONGEST_CALL_S:
            time.sleep(0.1)
        start_over("a call did not return")


def copy(bootstrap: str, source: str, target: str, random: Random, watchdog: Watchdog) -> None:
    common = {"bootstrap.servers": bootstrap, **CONNECTION}
    producer = Producer(
        common | {"transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": 10_000}
    )
    producer.init_transactions(OPERATION_TIMEOUT_S)
    consumer = Consumer(
        common
        | {
            "group.id": GROUP,
            # A static member takes the place of the one that was killed, without waiting for it.
            "group.instance.id": GROUP,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([source])
    while True:
        watchdog.feed()
        messages = [m for m in consumer.consume(BATCH, 0.1) if m.error() is None]
        if messages and random.random() < ABORTED_SHARE:
            abort_on_purpose(producer, target, len(messages))
        if messages:
            copy_batch(producer, consumer, target, messages)


def abort_on_purpose(producer: Producer, target: str, count: int) -> None:
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(target, ABORTED)
    producer.flush(OPERATION_TIMEOUT_S)
    producer.abort_transaction(OPERATION_TIMEOUT_S)


def copy_batch(
    producer: Producer, consumer: Consumer, target: str, messages: list[Message]
) -> None:
    producer.begin_transaction()
    try:
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            producer.produce(target, transformed(message.value()))
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
