"""Producers and consumers of a simulated cluster. Used by `testing.simulator`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from floodmark.invariant import invariant
from floodmark.records.batch import iter_headers
from floodmark.records.record import Record, encode_batch
from floodmark.replication.replica import ACKS_ALL
from floodmark.testing.simulated_network import (
    ConsumerFetch,
    ConsumerFetchAnswer,
    Message,
    Produce,
    ProduceAnswer,
)
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode

RETRY_MS = 300.0
_LOST_PLACE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(slots=True)
class SimulatedProducer:
    """Idempotent, one batch in flight, and it never gives one up."""

    id: int
    acks: int
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

    def tick(self, broker_id: int, random: Random, *, may_begin: bool = True) -> None:
        """Sends a new batch, or the old one again when its answer is overdue."""
        if self.is_idle and may_begin:
            self._begin(random)
            self._transmit(broker_id)
        elif not self.is_idle and self.clock.monotonic_ms() >= self.retry_at_ms:
            self._transmit(broker_id)

    def _begin(self, random: Random) -> None:
        now_ms = self.clock.now_ms()
        for _ in range(random.randint(1, 3)):
            value = b"%d-%d" % (self.id, self.sent)
            self.records.append(Record(0, now_ms, b"k", value, []))
            self.sent += 1

    def _transmit(self, broker_id: int) -> None:
        self.request += 1
        self.retry_at_ms = self.clock.monotonic_ms() + RETRY_MS
        batch = encode_batch(
            self.records,
            producer_id=self.id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.next_sequence,
        )
        self.send(Message(self.id, broker_id, Produce(self.request, self.acks, bytes(batch))))

    def answered(self, answer: ProduceAnswer) -> None:
        if answer.request != self.request or self.is_idle:
            return
        if answer.error_code is ErrorCode.NONE:
            self.next_sequence += len(self.records)
            self.records = []
        elif answer.error_code in _LOST_PLACE and self.acks != ACKS_ALL:
            # A new leader may lack what the old one acknowledged alone: begin anew (KIP-360). With
            # acks=all only a deposed leader can say so, and the batch is simply sent again.
            self.producer_epoch += 1
            self.next_sequence = 0
        self.retry_at_ms = 0.0


@dataclass(slots=True)
class SimulatedConsumer:
    """Reads from the beginning, batch by batch; what it has read it keeps."""

    id: int
    send: Callable[[Message], None]
    next_offset: int = 0
    read: bytearray = field(default_factory=bytearray)

    def tick(self, broker_id: int, random: Random) -> None:
        max_bytes = random.choice((200, 2000))
        self.send(Message(self.id, broker_id, ConsumerFetch(self.next_offset, max_bytes)))

    def answered(self, answer: ConsumerFetchAnswer) -> None:
        if answer.fetch_offset != self.next_offset or answer.error_code is not ErrorCode.NONE:
            return
        for position, header in iter_headers(answer.records):
            invariant(
                header.base_offset == self.next_offset,
                f"reads-are-contiguous: wanted {self.next_offset}, got {header.base_offset}",
            )
            self.next_offset = header.next_offset
            self.read += answer.records[position : position + header.size_bytes]
