"""What must hold in a simulated cluster after every step, each under its name.

Used by `testing.simulator`. `committed` is all that any leader has ever shown below its high
watermark, byte for byte: it only grows, and everything else is compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from floodmark.invariant import invariant
from floodmark.metadata.image import PartitionImage
from floodmark.records.batch import iter_headers, read_header
from floodmark.replication.replica import ACKS_ALL
from floodmark.storage.partition_log import PartitionLog
from floodmark.testing.simulated_broker import SimulatedBroker
from floodmark.testing.simulated_clients import SimulatedConsumer

# Base offset and leader epoch are the leader's; a batch is the producer's from its magic on.
_PRODUCERS_PART = 16


@dataclass(slots=True)
class LogView:
    """The bytes of a log and where its batches lie, kept up to date as the log grows."""

    data: bytes = b""
    # Where the batch that begins at an offset begins; the log's end is among them.
    positions: dict[int, int] = field(default_factory=lambda: {0: 0})
    sequences: set[tuple[int, int, int]] = field(default_factory=set)
    end_offset: int = 0
    _seen: tuple[object, ...] = ()

    def refresh(self, name: str, log: PartitionLog) -> None:
        seen = (log, log.log_end_offset, log.size_bytes)
        if seen == self._seen:
            return
        data = b"".join(
            segment.file.pread(segment.size_bytes, 0)
            for segment in log.segments
            if segment.size_bytes
        )
        if not data.startswith(self.data):
            self.positions, self.sequences, self.end_offset = {0: 0}, set(), 0
            self.data = b""
        for position, header in iter_headers(data, len(self.data)):
            invariant(
                header.base_offset == self.end_offset,
                f"offsets-dense: {name} goes on at {header.base_offset} after {self.end_offset}",
            )
            sequence = (header.producer_id, header.producer_epoch, header.base_sequence)
            invariant(
                sequence not in self.sequences,
                f"idempotent-at-most-once: {name} holds producer, epoch, sequence {sequence} twice",
            )
            self.sequences.add(sequence)
            self.end_offset = header.next_offset
            self.positions[self.end_offset] = position + header.size_bytes
        self.data = data
        self._seen = seen
        invariant(
            self.end_offset == log.log_end_offset and self.positions[self.end_offset] == len(data),
            f"offsets-dense: {name} says it ends at {log.log_end_offset}, not {self.end_offset}",
        )

    def below(self, offset: int) -> bytes:
        return self.data[: self.positions[offset]]


class Invariants:
    def __init__(self) -> None:
        self.committed = LogView()
        self.acknowledged = 0
        self._views: dict[int, LogView] = {}
        # Leader epoch -> (broker, incarnation).
        self._leaders: dict[int, tuple[int, int]] = {}
        # (broker, incarnation, leader epoch) -> high watermark.
        self._high_watermarks: dict[tuple[int, int, int], int] = {}

    def check(self, brokers: Sequence[SimulatedBroker], truth: PartitionImage) -> None:
        running = [broker for broker in brokers if broker.running]
        for broker in running:
            view = self._views.setdefault(broker.id, LogView())
            view.refresh(f"broker {broker.id}", broker.replica.log)
        for broker in running:
            if broker.replica.core.is_leader:
                self._one_leader_per_epoch(broker)
                self._high_watermark_never_goes_back(broker)
                self._committed_has_one_value(broker)
        for broker in running:
            self._acknowledged_is_committed(broker)
            if broker.id in truth.isr and not broker.has_lost_data:
                self._in_sync_replicas_have_all_committed(broker)

    def check_consumer(self, consumer: SimulatedConsumer) -> None:
        invariant(
            self.committed.data.startswith(bytes(consumer.read)),
            f"reads-are-committed: consumer {consumer.id} read what is not there",
        )

    def view_of(self, broker: SimulatedBroker) -> LogView:
        return self._views[broker.id]

    def _one_leader_per_epoch(self, broker: SimulatedBroker) -> None:
        leader_epoch = broker.replica.core.leadership.leader_epoch
        me = (broker.id, broker.incarnation)
        known = self._leaders.setdefault(leader_epoch, me)
        invariant(
            known == me,
            f"one-leader-per-epoch: epoch {leader_epoch} is led by {known} and {me}",
        )

    def _high_watermark_never_goes_back(self, broker: SimulatedBroker) -> None:
        core = broker.replica.core
        key = (broker.id, broker.incarnation, core.leadership.leader_epoch)
        before = self._high_watermarks.get(key, 0)
        invariant(
            core.high_watermark >= before,
            f"high-watermark-never-goes-back: from {before} to {core.high_watermark} on {key}",
        )
        self._high_watermarks[key] = core.high_watermark

    def _committed_has_one_value(self, broker: SimulatedBroker) -> None:
        """(partition, offset) has one value for ever, whoever leads."""
        core = broker.replica.core
        view = self._views[broker.id]
        invariant(
            core.high_watermark in view.positions,
            f"high-watermark-within-log: {core.high_watermark} of broker {broker.id} is no end of "
            f"a batch, its log ends at {view.end_offset}",
        )
        below = view.below(core.high_watermark)
        if len(below) <= len(self.committed.data):
            same = self.committed.data.startswith(below)
        else:
            same = below.startswith(self.committed.data)
            if same:
                self._grow(below)
        invariant(same, f"one-value-per-offset: leader {broker.id} shows other committed records")

    def _grow(self, below: bytes) -> None:
        for position, header in iter_headers(below, len(self.committed.data)):
            self.committed.end_offset = header.next_offset
            self.committed.positions[header.next_offset] = position + header.size_bytes
        self.committed.data = below

    def _acknowledged_is_committed(self, broker: SimulatedBroker) -> None:
        """What was acknowledged by all is committed, at its offset; from then on it never goes."""
        for acks, base_offset, batch in broker.acknowledged:
            if acks != ACKS_ALL:
                continue
            self.acknowledged += 1
            header = read_header(batch)
            end_offset = base_offset + header.last_offset_delta + 1
            held = b""
            if base_offset in self.committed.positions and end_offset in self.committed.positions:
                start = self.committed.positions[base_offset] + _PRODUCERS_PART
                held = self.committed.data[start : self.committed.positions[end_offset]]
            invariant(
                held == batch[_PRODUCERS_PART:],
                f"no-acknowledged-record-lost: broker {broker.id} acknowledged offset "
                f"{base_offset} before it was committed",
            )

    def _in_sync_replicas_have_all_committed(self, broker: SimulatedBroker) -> None:
        """Whoever may be elected has every committed record, so none that was acknowledged goes."""
        view = self._views[broker.id]
        invariant(
            view.end_offset >= self.committed.end_offset,
            f"high-watermark-within-isr: in-sync broker {broker.id} ends at {view.end_offset}, "
            f"committed is up to {self.committed.end_offset}: acknowledged records can be lost",
        )
        invariant(
            view.data.startswith(self.committed.data),
            f"same-bytes-below-high-watermark: in-sync broker {broker.id} differs",
        )
