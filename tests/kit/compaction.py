"""A compacted log that tests fill, clean in place, and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from floodmark.records.batch import read_header
from floodmark.records.compression import Compression
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.storage.compaction.cleanable import examine
from floodmark.storage.compaction.compaction import CleanedGroup, compact
from floodmark.storage.files import Files
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.segment import Segment
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.storage.recovery.segment_files import CLEANED_SUFFIX

NOW_MS = 1_700_000_000_000
SMALL = {
    "segment_bytes": 600,
    "index_interval_bytes": 100,
    "cleanup_policy": frozenset({"compact"}),
    "min_cleanable_dirty_ratio": 0.0,
}


class CompactionBench:
    def __init__(self, files: Files, directory: Path, **settings: Any) -> None:
        self.files = files
        self.directory = directory / "table-0"
        self.config = LogConfig(**{**SMALL, **settings})
        self.now_ms = NOW_MS
        self.clean_offset: int | None = None
        self.dedupe_buffer_bytes = 1 << 20
        self.log = self.open()
        self._sequences: dict[int, int] = {}

    def open(self, *, clean: bool = True, recovery_point: int = 0) -> PartitionLog:
        return PartitionLog.open(
            self.files,
            self.directory,
            self.config,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=recovery_point,
        )

    def put(
        self,
        *pairs: tuple[str, str | None],
        producer: tuple[int, int] | None = None,
        is_transactional: bool = False,
        compression: Compression = Compression.NONE,
    ) -> int:
        """Append one batch; returns its base offset."""
        records = [
            Record(0, self.now_ms, key.encode(), None if value is None else value.encode(), [])
            for key, value in pairs
        ]
        fields: dict[str, Any] = {}
        if producer is not None:
            sequence = self._sequences.get(producer[0], 0)
            self._sequences[producer[0]] = sequence + len(records)
            fields = {
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "base_sequence": sequence,
                "is_transactional": is_transactional,
            }
        batch = encode_batch(records, compression=compression, **fields)
        base_offset = self.log.log_end_offset
        self.log.append(batch, read_header(batch), 0, self.now_ms)
        return base_offset

    def skip_sequences(self, producer: tuple[int, int], count: int) -> None:
        """As if batches of the producer had got lost on the way."""
        self._sequences[producer[0]] += count

    def end(self, producer: tuple[int, int], *, committed: bool) -> int:
        control_type = ControlType.COMMIT if committed else ControlType.ABORT
        marker = encode_marker(
            EndTransactionMarker(control_type, 0),
            producer_id=producer[0],
            producer_epoch=producer[1],
            timestamp_ms=self.now_ms,
        )
        base_offset = self.log.log_end_offset
        self.log.append(
            marker, read_header(marker), 0, self.now_ms, origin=AppendOrigin.COORDINATOR
        )
        return base_offset

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def clean(self) -> list[CleanedGroup]:
        """One round over everything but the active segment, swapped in at once."""
        found = examine(self.log, self.log.log_end_offset, self.clean_offset, self.now_ms)
        if not found.segments:
            return []
        job = found.job(self.now_ms, self.dedupe_buffer_bytes)
        groups: list[CleanedGroup] = []

        def emit(group: CleanedGroup) -> None:
            groups.append(group)
            swap(self.files, self.log, found.segments, group)

        self.clean_offset = compact(self.files, job, emit, lambda size_bytes: None)
        return groups

    def records_with_producers(self) -> list[tuple[Record, int, bool]]:
        """Each with its producer id and whether it was part of a transaction."""
        return [
            (record, header.producer_id, header.is_transactional)
            for segment, position, header in self.log.batches(0, self.log.log_end_offset)
            if not header.is_control
            for record in decode_records(segment.file.pread(header.size_bytes, position))
        ]

    def records(self) -> list[Record]:
        return [record for record, _, _ in self.records_with_producers()]

    def pairs(self) -> list[tuple[str, str | None]]:
        return [
            ((record.key or b"").decode(), None if record.value is None else record.value.decode())
            for record in self.records()
        ]

    def table(self) -> dict[str, str]:
        """What a reader who keeps the last value of each key ends with."""
        table: dict[str, str] = {}
        for key, value in self.pairs():
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        return table

    def names(self) -> list[str]:
        return [
            name for name in self.files.listdir(self.directory) if not name.endswith(".deleted")
        ]


def swap(files: Files, log: PartitionLog, segments: list[Segment], group: CleanedGroup) -> None:
    cleaned = Segment.load(files, log.directory, group.base_offset, log.config, CLEANED_SUFFIX)
    cleaned.load_indexes()
    cleaned.file.size()
    replaced = [segment for segment in segments if segment.base_offset in group.replaced]
    assert log.swap_in(cleaned, replaced)
    log.finish_swap(cleaned, replaced).remove()
