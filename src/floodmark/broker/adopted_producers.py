"""Finds the largest producer id in a data folder being adopted.

`identity.py` calls it for a folder without a metadata store. New producer ids must be higher, or a
new producer would be mistaken for an old one and its records for duplicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from floodmark.broker.adopted_batches import sound_batches
from floodmark.metadata.image import TRANSACTION_STATE_TOPIC
from floodmark.records.record import iter_records
from floodmark.storage.files import Files
from floodmark.storage.log_dir import FoundPartition
from floodmark.storage.producers.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    snapshot_offsets,
    snapshot_path,
)
from floodmark.storage.recovery.segment_files import log_paths

# A value in __transaction_state starts with its version and the producer id.
_PRODUCER_ID = slice(2, 10)


def last_producer_id(files: Files, found: Sequence[FoundPartition]) -> int:
    """Returns -1 if no producer with an id has written."""
    last = -1
    for item in found:
        ids = chain([last], _in_snapshots(files, item.folder), _in_last_segment(files, item.folder))
        last = max(ids)
        if item.topic == TRANSACTION_STATE_TOPIC:
            last = max(chain([last], _of_transactions(files, item.folder)))
    return last


def _in_snapshots(files: Files, folder: Path) -> Iterator[int]:
    for offset in snapshot_offsets(files, folder):
        try:
            entries = decode_snapshot(files.read_file(snapshot_path(folder, offset)))
        except CorruptSnapshot:
            continue
        yield from (entry.producer_id for entry in entries)


def _in_last_segment(files: Files, folder: Path) -> Iterator[int]:
    """The ids after the last snapshot, if the broker was not shut down cleanly."""
    segments = log_paths(files, folder)
    if segments and max(snapshot_offsets(files, folder), default=0) <= int(segments[-1].stem):
        yield from (header.producer_id for header, _ in sound_batches(files, segments[-1]))


def _of_transactions(files: Files, folder: Path) -> Iterator[int]:
    """The ids of transactional ids, which may not have written for a long time."""
    for path in log_paths(files, folder):
        for header, batch in sound_batches(files, path):
            if header.is_control:
                continue
            for record in iter_records(batch):
                if record.value is not None:
                    yield int.from_bytes(record.value[_PRODUCER_ID], "big", signed=True)
