"""Idempotent load that goes on through crashes and remembers what was acknowledged.

librdkafka does the sending: its retries over a broker's death are what the promises are about, and
it is not our own code.
"""

from __future__ import annotations

import threading
import time
from random import Random
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

KEYS_PER_PARTITION = 4
VALUE_SIZES = (10, 200, 1500)
RECORDS_PER_BURST = 20
PAUSE_S = 0.01
FLUSH_TIMEOUT_S = 60


class Sent(NamedTuple):
    """One record as it was handed to the producer: the `number` counts up for each key."""

    key: str
    number: int
    timestamp_ms: int


class Load:
    """Runs in a thread from `start` to `finish`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        self._topic = topic
        self._random = Random(seed)
        self._keys = [
            (f"{partition}-{key}", partition)
            for partition in range(partitions)
            for key in range(KEYS_PER_PARTITION)
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crash-load")
        self._next_number = dict.fromkeys((key for key, _ in self._keys), 0)
        self._problems: list[str] = []
        self._acknowledged: list[tuple[int, int | None, Sent]] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                # Starting over from the bootstrap list leaves partitions without a leader for many
                # seconds, and here the one broker always comes back where it was.
                "metadata.recovery.strategy": "none",
                "topic.metadata.refresh.fast.interval.ms": 50,
                "message.timeout.ms": FLUSH_TIMEOUT_S * 1000,
                "queue.buffering.max.messages": 2000,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Sends no more and waits until all that was sent is acknowledged."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if left:
            self._problems.append(f"{left} records were never acknowledged")

    @property
    def problems(self) -> list[str]:
        return list(self._problems)

    @property
    def sent(self) -> dict[str, int]:
        """How many records of each key were handed to the producer."""
        return dict(self._next_number)

    def acknowledged(self, begin: int = 0) -> list[tuple[int, int | None, Sent]]:
        """(partition, offset, record) in the order of acknowledgement.

        librdkafka knows no offset of a record whose own answer was an error, and that a later
        record's acknowledgement covers: an idempotent producer's records are never overtaken.
        """
        return self._acknowledged[begin:]

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(self._random.randrange(1, RECORDS_PER_BURST)):
                self._send_one()
            self._producer.poll(PAUSE_S)

    def _send_one(self) -> None:
        key, partition = self._random.choice(self._keys)
        # Timestamps jump back and forth a little, as those of many machines do.
        timestamp_ms = int(time.time() * 1000) + self._random.randrange(-40, 40)
        sent = Sent(key, self._next_number[key], timestamp_ms)
        value = f"{sent.number}:".encode() + self._random.randbytes(
            self._random.choice(VALUE_SIZES)
        )

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._problems.append(f"{sent} failed: {error}")
                return
            self._acknowledged.append((message.partition(), message.offset(), sent))

        try:
            self._producer.produce(
                self._topic,
                value,
                key,
                partition,
                on_delivery=on_delivery,
                timestamp=timestamp_ms,
            )
        except BufferError:
            self._producer.poll(PAUSE_S)
            return
        except KafkaException as problem:
            self._problems.append(str(problem))
            self._stop.set()
            return
        self._next_number[key] += 1

    def _on_error(self, error: KafkaError) -> None:
        """A lost connection is what we are here for; a fatal error is a broken promise."""
        if error.fatal():
            self._problems.append(f"fatal: {error}")
