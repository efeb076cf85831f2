"""Builds producer state from the log: batch by batch, starting at the last snapshot.

Called by partition_log.py for appends and after a truncation, and by recovery.py when a log opens.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from floodmark.records.batch import CONTROL_BIT, BatchHeader
from floodmark.records.control import EndTransactionMarker, decode_marker
from floodmark.storage.files import Buffer, Files
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.storage.log.segment import Segment
from floodmark.storage.log.verification import DamagedBatch
from floodmark.storage.producers.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from floodmark.storage.producers.producer_state import ProducerState
from floodmark.vocabulary import NO_PRODUCER_ID

logger = logging.getLogger(__name__)


def note_batch(
    producers: ProducerState,
    header: BatchHeader,
    base_offset: int,
    marker: EndTransactionMarker | None,
    segment: Segment | None,
) -> None:
    """Adds a producer's written batch to its state. An abort also goes to the segment's index."""
    if not header.attributes & CONTROL_BIT:
        producers.update(header, base_offset)
        return
    if marker is None:
        return
    completed = producers.update_marker(header, marker, base_offset)
    if completed is None:
        return
    if completed.is_aborted and segment is not None:
        segment.transaction_index.append(
            AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                producers.last_stable_offset_after(completed),
            )
        )
    producers.complete(completed)


def replay_batch(
    producers: ProducerState, batch: Buffer, header: BatchHeader, segment: Segment | None
) -> None:
    """Like note_batch, for a batch that already has its offset.

    Without a segment, writes no index.
    """
    if header.producer_id != NO_PRODUCER_ID:
        marker = decode_marker(batch) if header.attributes & CONTROL_BIT else None
        note_batch(producers, header, header.base_offset, marker, segment)
    producers.end_offset = header.next_offset


def rebuild_producers(
    files: Files,
    directory: Path,
    segments: Sequence[Segment],
    producers: ProducerState,
    *,
    first_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Producer state as of end_offset.

    The newest snapshot at or below it, plus the batches after it.
    """
    if not _load_snapshot(files, directory, producers, end_offset, now_ms):
        producers.clear(first_offset)
    for slot, segment in enumerate(segments):
        next_base = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
        if next_base <= producers.end_offset and slot + 1 < len(segments):
            continue
        if segment.base_offset >= end_offset or producers.end_offset >= end_offset:
            break
        _replay_segment(segment, producers, end_offset)
    producers.note_expired(now_ms)
    producers.end_offset = end_offset


def _replay_segment(segment: Segment, producers: ProducerState, end_offset: int) -> None:
    """Skips damaged batches. At worst, one was the end of a transaction, which then stays open:
    read_committed waits there, and reads nothing wrong."""
    place: tuple[int, int | None] | None = (0, None)
    while place is not None:
        try:
            if place[1] is None:
                place = (segment.position_of(producers.end_offset), None)
            _replay_from(segment, *place, producers, end_offset)
            return
        except DamagedBatch as damage:
            logger.error("rebuilding producer state without a batch: %s", damage)
            place = damage.after


def _replay_from(
    segment: Segment,
    position: int,
    base_offset: int | None,
    producers: ProducerState,
    end_offset: int,
) -> None:
    for at, header in segment.headers(position, segment.size_bytes, base_offset):
        if header.base_offset >= end_offset:
            return
        if header.next_offset <= producers.end_offset:
            continue
        if header.attributes & CONTROL_BIT:
            replay_batch(producers, segment.file.pread(header.size_bytes, at), header, None)
        else:
            replay_batch(producers, b"", header, None)


def _load_snapshot(
    files: Files, directory: Path, producers: ProducerState, end_offset: int, now_ms: int
) -> bool:
    for offset in reversed(snapshot_offsets(files, directory)):
        if offset > end_offset:
            continue
        try:
            entries = decode_snapshot(files.read_file(snapshot_path(directory, offset)))
        except CorruptSnapshot:
            files.remove(snapshot_path(directory, offset))
            continue
        producers.load(entries, offset, now_ms)
        return True
    return False
