"""The pending batches of one partition: filling, waiting, in flight, retrying. PURE.

The producer has one queue per partition and asks each what to send next. Retries keep the order: a
retried batch goes alone, before all later ones. With idempotence several batches may be in flight,
because the broker refuses a batch whose predecessor is missing. Without it, only one may.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.producer.batch import Delivery, ProducerBatch
from floodmark.records.batch import add_sequence
from floodmark.records.record import Record
from floodmark.vocabulary import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

# The broker remembers a producer's last five batches per partition. With more in flight, it could
# miss a duplicate.
MAX_IN_FLIGHT_IDEMPOTENT = 5
LAST_EPOCH = 32767


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The producer id and epoch for sequences. The default means no idempotence."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def bumped(self) -> ProducerIdentity:
        """The next epoch. After the last one, a new producer id is needed."""
        if self.producer_epoch == LAST_EPOCH:
            return ProducerIdentity()
        return ProducerIdentity(self.producer_id, self.producer_epoch + 1)


class PartitionQueue:
    def __init__(self, partition: TopicPartition, *, batch_size: int, idempotent: bool) -> None:
        self.partition = partition
        self.identity = ProducerIdentity()
        self.needs_new_epoch = False
        self._batch_size = batch_size
        self._idempotent = idempotent
        self._max_in_flight = MAX_IN_FLIGHT_IDEMPOTENT if idempotent else 1
        self._next_sequence = 0
        self._waiting: deque[ProducerBatch] = deque()
        self._in_flight: list[ProducerBatch] = []

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._in_flight

    @property
    def batches(self) -> list[ProducerBatch]:
        """All unfinished batches, oldest first."""
        return [*self._in_flight, *self._waiting]

    @property
    def head_size_bytes(self) -> int:
        """The size of the next batch to send."""
        return self._waiting[0].size_bytes if self._waiting else 0

    @property
    def head_is_numbered(self) -> bool:
        return bool(self._waiting) and self._waiting[0].base_sequence is not None

    # --- filling ---

    def has_room(self, size_bytes: int) -> bool:
        """Whether a record of this size fits into the open batch."""
        last = self._open_batch()
        return last is not None and last.size_bytes + size_bytes <= self._batch_size

    def append(self, record: Record, size_bytes: int, now_ms: float) -> tuple[Delivery, bool]:
        """Adds a record. Also returns whether it opened a new batch."""
        opened = not self.has_room(size_bytes)
        if opened:
            self._waiting.append(ProducerBatch(self.partition, now_ms))
        return self._waiting[-1].add(record, size_bytes), opened

    def _open_batch(self) -> ProducerBatch | None:
        """The last batch, unless it has been sent."""
        if not self._waiting:
            return None
        last = self._waiting[-1]
        return last if last.attempts == 0 and last.base_sequence is None else None

    # --- sending ---

    def ready_at_ms(self, linger_ms: float, *, hurry: bool) -> float | None:
        """When the head may be sent: a past time means now, None means it is blocked."""
        if not self._waiting or not self._may_send(self._waiting[0]):
            return None
        head = self._waiting[0]
        if head.attempts:
            return head.retry_at_ms
        if hurry or len(self._waiting) > 1 or head.size_bytes >= self._batch_size:
            return head.created_ms
        return head.created_ms + linger_ms

    def _may_send(self, head: ProducerBatch) -> bool:
        if len(self._in_flight) >= self._max_in_flight:
            return False
        if self.needs_new_epoch:
            return False
        if head.attempts == 0:
            return True
        # A retry: no older batch may be in flight.
        return not any(_is_before(batch, head) for batch in self._in_flight)

    def needs_identity(self, current: ProducerIdentity) -> bool:
        """Whether the queue uses an older identity and can switch now."""
        return self.identity != current and self._nothing_numbered()

    def _nothing_numbered(self) -> bool:
        return not self._in_flight and all(b.base_sequence is None for b in self._waiting)

    def can_renumber(self) -> bool:
        """A new epoch can begin once the outcome of every batch of the old one is known."""
        return self.needs_new_epoch and not self._in_flight

    def begin_epoch(self, identity: ProducerIdentity) -> None:
        """Renumbers all waiting batches from 0 under a new identity."""
        self.identity = identity
        self.needs_new_epoch = False
        self._next_sequence = 0
        for batch in self._waiting:
            batch.base_sequence = None
            batch.encoded = None

    def take(self) -> ProducerBatch:
        """Takes the head for sending."""
        batch = self._waiting.popleft()
        if self._idempotent and batch.base_sequence is None:
            batch.base_sequence = self._next_sequence
            self._next_sequence = add_sequence(self._next_sequence, len(batch.records))
        batch.attempts += 1
        self._in_flight.append(batch)
        return batch

    # --- outcomes ---

    def finished(self, batch: ProducerBatch) -> None:
        """Removes a batch that was acknowledged or given up."""
        self._in_flight.remove(batch)

    def is_oldest(self, batch: ProducerBatch) -> bool:
        """Whether no older batch is undecided. Only then is a sequence gap real."""
        others = [b for b in self.batches if b is not batch and b.base_sequence is not None]
        return not any(_is_before(other, batch) for other in others)

    def put_back(self, batch: ProducerBatch, retry_at_ms: float) -> None:
        """Schedules a retry, in order before all newer batches."""
        self._in_flight.remove(batch)
        batch.retry_at_ms = retry_at_ms
        self._insert(batch)

    def replace_by_halves(self, batch: ProducerBatch) -> None:
        """Splits a batch that is too large for the broker."""
        self._in_flight.remove(batch)
        first, second = batch.split()
        for half in (second, first):
            half.attempts = batch.attempts
            self._insert(half)

    def _insert(self, batch: ProducerBatch) -> None:
        """Inserts by sequence. Without sequences only the oldest batch is in flight."""
        position = 0
        if batch.base_sequence is not None:
            for waiting in self._waiting:
                if waiting.base_sequence is None or not _is_before(waiting, batch):
                    break
                position += 1
        self._waiting.insert(position, batch)

    def expire(self, created_before_ms: float) -> list[ProducerBatch]:
        """Removes batches that have exceeded the delivery timeout."""
        expired: list[ProducerBatch] = []
        while self._waiting and self._waiting[0].created_ms < created_before_ms:
            expired.append(self._waiting.popleft())
        return expired


def _is_before(one: ProducerBatch, other: ProducerBatch) -> bool:
    """Compares sequences, which wrap around, by the shorter distance. Without sequences: True."""
    if one.base_sequence is None or other.base_sequence is None:
        return True
    distance = (other.base_sequence - one.base_sequence) & 0x7FFFFFFF
    return 0 < distance < 0x40000000
