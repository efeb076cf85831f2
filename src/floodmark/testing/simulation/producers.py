"""Simulated producers: idempotent and transactional ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from floodmark.records.record import Record, encode_batch
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.testing.simulation.messages import (
    MarkerAnswer,
    Message,
    Produce,
    ProduceAnswer,
    WriteMarker,
)
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode

RETRY_MS = 300.0
_LOST_PLACE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)

Leaders = Callable[[TopicPartition], int]
"""Returns the broker a client considers the leader of a partition; usually the right one."""


def _some_records(random: Random, clock: VirtualClock, name: str, first: int) -> list[Record]:
    now_ms = clock.now_ms()
    return [
        Record(0, now_ms, b"k", f"{name}-{first + number}".encode(), [])
        for number in range(random.randint(1, 3))
    ]


@dataclass(slots=True)
class IdempotentProducer:
    """One partition and one batch in flight, which it never gives up."""

    id: int
    key: TopicPartition
    acks: int
    # Whether acknowledged records can be lost, so that it must start over (KIP-360).
    may_lose_place: bool
    clock: VirtualClock
    send: Callable[[Message], None]
    producer_epoch: int = 0
    next_sequence: int = 0
    request: int = 0
    records: list[Record] = field(default_factory=list)
    retry_at_ms: float = 0.0
    sent: int = 0

    @property
    def is_idle(self) -> bool:
        return not self.records

    def tick(self, leaders: Leaders, random: Random, *, may_begin: bool = True) -> None:
        """Sends a new batch, or repeats the last one when its response is overdue."""
        if self.is_idle and may_begin:
            self.records = _some_records(random, self.clock, str(self.id), self.sent)
            self.sent += len(self.records)
            self._transmit(leaders(self.key))
        elif not self.is_idle and self.clock.monotonic_ms() >= self.retry_at_ms:
            self._transmit(leaders(self.key))

    def _transmit(self, broker_id: int) -> None:
        self.request += 1
        self.retry_at_ms = self.clock.monotonic_ms() + RETRY_MS
        batch = encode_batch(
            self.records,
            producer_id=self.id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.next_sequence,
        )
        produce = Produce(self.request, self.key, self.acks, bytes(batch))
        self.send(Message(self.id, broker_id, produce))

    def answered(self, answer: ProduceAnswer | MarkerAnswer) -> None:
        if not isinstance(answer, ProduceAnswer) or answer.request != self.request or self.is_idle:
            return
        if answer.error_code is ErrorCode.NONE:
            self.next_sequence += len(self.records)
            self.records = []
        elif answer.error_code in _LOST_PLACE and self.may_lose_place:
            self.producer_epoch += 1
            self.next_sequence = 0
        self.retry_at_ms = 0.0


class Outcome(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class TransactionalProducer:
    """Writes a batch to each of several partitions, then ends the transaction.

    It is its own coordinator. Every transaction has its own producer epoch (KIP-890): markers carry
    the next one, so a late batch is refused. `outcomes` holds each outcome by producer epoch.
    """

    id: int
    keys: list[TopicPartition]
    clock: VirtualClock
    send: Callable[[Message], None]
    producer_epoch: int = 0
    request: int = 0
    batches: dict[TopicPartition, bytes] = field(default_factory=dict)
    unmarked: set[TopicPartition] = field(default_factory=set)
    retry_at_ms: float = 0.0
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    # The values of each transaction, by partition.
    values: dict[int, dict[TopicPartition, list[bytes]]] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        return not self.batches and not self.unmarked

    @property
    def outcome(self) -> Outcome:
        return self.outcomes.get(self.producer_epoch, Outcome.OPEN)

    def tick(self, leaders: Leaders, random: Random, *, may_begin: bool = True) -> None:
        if self.is_idle:
            if may_begin:
                self._begin(random)
        elif self.clock.monotonic_ms() < self.retry_at_ms:
            return
        elif self.outcome is Outcome.OPEN and random.random() < 0.2:
            # It gives up, like a client that timed out.
            self._end(Outcome.ABORTED)
        self._transmit(leaders)

    def _begin(self, random: Random) -> None:
        self.outcomes[self.producer_epoch] = Outcome.OPEN
        values = self.values[self.producer_epoch] = {}
        for key in random.sample(self.keys, random.randint(1, len(self.keys))):
            name = f"t{self.id}-{self.producer_epoch}-{key[0]}-{key[1]}"
            records = _some_records(random, self.clock, name, 0)
            values[key] = [record.value or b"" for record in records]
            batch = encode_batch(
                records,
                producer_id=self.id,
                producer_epoch=self.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
            self.batches[key] = bytes(batch)
        self.unmarked = set(self.batches)

    def _end(self, outcome: Outcome) -> None:
        self.outcomes[self.producer_epoch] = outcome
        self.batches = {}

    def _transmit(self, leaders: Leaders) -> None:
        self.retry_at_ms = self.clock.monotonic_ms() + RETRY_MS
        if self.outcome is Outcome.OPEN:
            self.request += 1
            for key, batch in self.batches.items():
                produce = Produce(self.request, key, ACKS_ALL, batch, is_transactional=True)
                self.send(Message(self.id, leaders(key), produce))
        else:
            is_commit = self.outcome is Outcome.COMMITTED
            for key in sorted(self.unmarked):
                marker = WriteMarker(key, self.id, self.producer_epoch + 1, is_commit)
                self.send(Message(self.id, leaders(key), marker))

    def answered(self, answer: ProduceAnswer | MarkerAnswer) -> None:
        if answer.error_code is not ErrorCode.NONE:
            return
        if isinstance(answer, ProduceAnswer):
            if answer.request == self.request and self.outcome is Outcome.OPEN:
                self.batches.pop(answer.key, None)
                if not self.batches and self.unmarked:
                    self._end(Outcome.COMMITTED)
                    self.retry_at_ms = 0.0
        elif answer.producer_epoch == self.producer_epoch + 1:
            self.unmarked.discard(answer.key)
            if not self.unmarked and self.outcome is not Outcome.OPEN:
                self.producer_epoch += 1
