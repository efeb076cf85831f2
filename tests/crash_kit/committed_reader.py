"""A read_committed reader that reads on through crashes, and remembers what it saw and where."""

import threading
from typing import NamedTuple, Self

from confluent_kafka import Consumer, TopicPartition

from crash_kit.copier import CONNECTION

POLL_S = 0.1


class Seen(NamedTuple):
    partition: int
    offset: int
    value: bytes


class CommittedReader:
    """Reads all partitions of a topic from their start, in a thread, for the length of a block."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.seen: list[Seen] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committed-reader")
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **CONNECTION,
            }
        )
        self._consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, POLL_S):
                if message.error() is None:
                    place = message.partition(), message.offset()
                    self.seen.append(Seen(*place, message.value()))
