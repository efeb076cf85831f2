"""The bytes of a simulated log and its batch positions, and the committed history."""

from __future__ import annotations

from dataclasses import dataclass, field

from floodmark.invariant import InvariantViolation, invariant
from floodmark.records.batch import BatchHeader, iter_headers
from floodmark.storage.log.partition_log import PartitionLog

Sequence = tuple[int, int, int]


class Sequences:
    """The producers' batches, none of which may appear twice.

    Deleted batches may reappear: as in Kafka, a restart forgets producers with nothing left in the
    log.
    """

    def __init__(self) -> None:
        self._offsets: dict[Sequence, int] = {}

    def note(self, name: str, header: BatchHeader, log_start_offset: int) -> None:
        if header.is_control or header.base_sequence < 0:
            return
        sequence = (header.producer_id, header.producer_epoch, header.base_sequence)
        earlier = self._offsets.get(sequence)
        if earlier is not None and earlier >= log_start_offset:
            raise InvariantViolation(
                f"idempotent-at-most-once: {name} holds producer, epoch, sequence {sequence} twice"
            )
        self._offsets[sequence] = header.base_offset


@dataclass(slots=True)
class LogView:
    """A log as stored on disk, updated as it grows."""

    data: bytes = b""
    first_offset: int = 0
    end_offset: int = 0
    # The position of the batch at each base offset, including the log end.
    positions: dict[int, int] = field(default_factory=lambda: {0: 0})
    _sequences: Sequences = field(default_factory=Sequences)
    _seen: tuple[object, ...] = ()

    def refresh(self, name: str, log: PartitionLog) -> None:
        # No step both truncates a log and restores the same end.
        seen = (log, log.log_end_offset, log.segments[0].base_offset)
        if seen == self._seen:
            return
        self._seen = seen
        data = b"".join(
            segment.file.pread(segment.size_bytes, 0)
            for segment in log.segments
            if segment.size_bytes
        )
        first_offset = log.segments[0].base_offset
        if first_offset != self.first_offset or not data.startswith(self.data):
            self.data, self.first_offset, self.end_offset = b"", first_offset, first_offset
            self.positions, self._sequences = {first_offset: 0}, Sequences()
        self._read(name, data, log.log_start_offset)
        invariant(
            self.end_offset == log.log_end_offset and self.positions[self.end_offset] == len(data),
            f"offsets-dense: {name} says it ends at {log.log_end_offset}, not {self.end_offset}",
        )

    def _read(self, name: str, data: bytes, log_start_offset: int) -> None:
        for position, header in iter_headers(data, len(self.data)):
            invariant(
                header.base_offset == self.end_offset,
                f"offsets-dense: {name} goes on at {header.base_offset} after {self.end_offset}",
            )
            self._sequences.note(name, header, log_start_offset)
            self.end_offset = header.next_offset
            self.positions[self.end_offset] = position + header.size_bytes
        self.data = data

    def start_of_batch(self, offset: int) -> int:
        """The position of the batch with this offset, or the end of the log if it lies beyond."""
        return max((start for start in self.positions if start <= offset), default=offset)

    def between(self, start_offset: int, end_offset: int) -> bytes:
        return self.data[self.positions[start_offset] : self.positions[end_offset]]


@dataclass(slots=True)
class History:
    """Everything leaders have exposed below their high watermarks. It only grows.

    An unclean election starts a new history with what the new leader kept of this one.
    `first_epoch` is the first leader epoch it applies to.
    """

    first_epoch: int = 0
    data: bytes = b""
    end_offset: int = 0
    positions: dict[int, int] = field(default_factory=lambda: {0: 0})
    _sequences: Sequences = field(default_factory=Sequences)

    def show(self, name: str, view: LogView, start_offset: int, high_watermark: int) -> None:
        """Checks a leader's log up to here: it has the same records, or more."""
        if high_watermark <= start_offset:
            return  # Nothing is readable, and DeleteRecords may have cut a batch.
        invariant(
            high_watermark in view.positions,
            f"high-watermark-within-log: {high_watermark} of {name} is no end of a batch, its log "
            f"has {view.first_offset} to {view.end_offset}",
        )
        self.same(name, view, start_offset, min(high_watermark, self.end_offset))
        if high_watermark > self.end_offset:
            invariant(
                self.end_offset in view.positions,
                f"one-value-per-offset: {name} begins at {view.first_offset}, committed is only up "
                f"to {self.end_offset}",
            )
            self._grow(name, view.between(self.end_offset, high_watermark), start_offset)

    def same(self, name: str, view: LogView, log_start_offset: int, end_offset: int) -> None:
        """(partition, offset) has one value forever, on every broker.

        Deleted records do not count. A replica may keep records that it would have truncated, had
        its leader not forgotten the leader epochs below its log start offset. Kafka's leaders
        forget them as well: `LeaderEpochFileCache.endOffsetFor` says that it is inaccurate there.
        """
        start_offset = max(view.first_offset, view.start_of_batch(log_start_offset))
        if start_offset >= end_offset:
            return
        mine = self.positions
        is_same = (
            start_offset in mine
            and end_offset in mine
            and end_offset in view.positions
            and self.data[mine[start_offset] : mine[end_offset]]
            == view.between(start_offset, end_offset)
        )
        invariant(
            is_same,
            f"one-value-per-offset: {name} has other records from {start_offset} to {end_offset} "
            "than were committed",
        )

    def _grow(self, name: str, more: bytes, log_start_offset: int) -> None:
        start = len(self.data)
        for position, header in iter_headers(more):
            self._sequences.note(name, header, log_start_offset)
            self.positions[header.base_offset] = start + position
            self.end_offset = header.next_offset
            self.positions[self.end_offset] = start + position + header.size_bytes
        self.data += more

    def holds(self, base_offset: int, end_offset: int, batch: bytes, skipped: int) -> bool:
        """Whether a batch is committed at its offset.

        Ignores the first bytes, set by the leader.
        """
        mine = self.positions
        if base_offset not in mine or end_offset not in mine:
            return False
        return self.data[mine[base_offset] + skipped : mine[end_offset]] == batch[skipped:]

    def forked(self, first_epoch: int, view: LogView) -> History:
        """What an unclean leader keeps of this history."""
        kept = 0
        for offset in sorted(self.positions):
            is_kept = offset <= view.first_offset or self._agrees(kept, offset, view)
            if not is_kept:
                break
            kept = offset
        fork = History(first_epoch)
        fork._grow("an unclean leader", self.data[: self.positions[kept]], kept)
        # The leader may have begun inside a batch, at the log start of its predecessor, and copied
        # nothing yet: it goes on there, and what it lacks of the batch was deleted.
        fork._skip_to(max(kept, min(view.first_offset, self.end_offset)))
        return fork

    def _skip_to(self, offset: int) -> None:
        self.end_offset = offset
        self.positions[offset] = len(self.data)

    def _agrees(self, start_offset: int, end_offset: int, view: LogView) -> bool:
        if start_offset not in view.positions or end_offset not in view.positions:
            return False
        mine = self.data[self.positions[start_offset] : self.positions[end_offset]]
        return mine == view.between(start_offset, end_offset)
