"""Transactions that go on through crashes, and what must become of each of them.

librdkafka again: each transaction writes some records to every partition, and some are aborted on
purpose. One whose producer died in the middle may have either end, but only one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from random import Random

from confluent_kafka import KafkaException, Producer

from crash_kit.committed_reader import Seen
from crash_kit.copier import CONNECTION

RECORDS_PER_PARTITION = 2
ABORTED_SHARE = 0.3
CALL_S = 5.0
LONGEST_END_S = 60.0
TRANSACTION_TIMEOUT_MS = 60_000


class Fate(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class TransactionalLoad:
    """Runs in a thread from `start` to `finish`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._random = Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transactional-load")
        self.fates: list[Fate] = []
        self.problems: list[str] = []
        self.restarts = 0
        self.longest_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Begins no more and waits until the last one has ended."""
        self._stop.set()
        self._thread.join()

    @property
    def committed(self) -> int:
        return self.fates.count(Fate.COMMITTED)

    def check(self, seen: Iterable[Seen]) -> None:
        """Every committed transaction was seen whole, once and in order, and no aborted one."""
        places: dict[int, list[tuple[int, int]]] = defaultdict(list)
        counts: Counter[tuple[int, int, int]] = Counter()
        for record in sorted(seen):
            transaction, index = map(int, record.value.split(b":"))
            places[record.partition].append((transaction, index))
            counts[transaction, record.partition, index] += 1
        for found in places.values():
            assert found == sorted(found), "records are out of order"
        assert set(counts.values()) <= {1}, "a record was written twice"
        sizes = Counter(transaction for transaction, _, _ in counts)
        whole = self._partitions * RECORDS_PER_PARTITION
        for number, fate in enumerate(self.fates):
            allowed = {
                Fate.COMMITTED: {whole},
                Fate.ABORTED: {0},
                Fate.UNKNOWN: {0, whole},
            }[fate]
            assert sizes[number] in allowed, f"{fate.value} transaction {number}: {sizes[number]}"
        assert set(sizes) <= set(range(len(self.fates)))

    def _run(self) -> None:
        producer = self._new_producer()
        while producer is not None and not self._stop.is_set():
            began = time.monotonic()
            fate = self._one(producer, len(self.fates))
            self.fates.append(fate)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            if fate is Fate.UNKNOWN:
                self.restarts += 1
                producer = self._new_producer()

    def _new_producer(self) -> Producer | None:
        """Its id fences the one before, and completes or aborts what that left behind."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self._topic,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                **CONNECTION,
            }
        )
        if self._until_done(producer.init_transactions) is Fate.COMMITTED:
            return producer
        self.problems.append("a transactional producer did not come back")
        return None

    def _one(self, producer: Producer, number: int) -> Fate:
        producer.begin_transaction()
        for partition in range(self._partitions):
            for index in range(RECORDS_PER_PARTITION):
                value = b"%d:%d" % (number, index)
                producer.produce(self._topic, value, partition=partition)
        if self._random.random() < ABORTED_SHARE:
            producer.flush(CALL_S)
            return self._abort(producer)
        ended = self._until_done(producer.commit_transaction)
        return self._abort(producer) if ended is Fate.ABORTED else ended

    def _abort(self, producer: Producer) -> Fate:
        ended = self._until_done(producer.abort_transaction)
        return Fate.ABORTED if ended is Fate.COMMITTED else Fate.UNKNOWN

    def _until_done(self, call: Callable[[float], None]) -> Fate:
        """COMMITTED when the call has succeeded, ABORTED when the transaction must be aborted."""
        deadline = time.monotonic() + LONGEST_END_S
        while True:
            try:
                call(CALL_S)
                return Fate.COMMITTED
            except KafkaException as problem:
                error = problem.args[0]
                if error.txn_requires_abort():
                    return Fate.ABORTED
                if not error.retriable() or time.monotonic() > deadline:
                    return Fate.UNKNOWN
