"""`.snapshot` files: producer state at an offset, in Kafka's format with its checksum.

Written when a segment rolls and at a clean shutdown, read when a log opens or is truncated. Called
by partition_log.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final

from fastcrc import crc32

from floodmark.storage.files import Files
from floodmark.storage.producers.producer_state import BatchMetadata, ProducerEntry, ProducerState

SUFFIX: Final = ".snapshot"
_NAME: Final = re.compile(r"([0-9]{20})\.snapshot")
_VERSION: Final = 1
_HEAD: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")
# The checksum covers what follows it: the number of entries and the entries.
_CRC_END: Final = 6


class CorruptSnapshot(Exception):
    """The file is unreliable; an older one or the log itself must do."""


def snapshot_path(directory: Path, offset: int) -> Path:
    return directory / f"{offset:020d}{SUFFIX}"


def snapshot_offsets(files: Files, directory: Path) -> list[int]:
    """The offsets of all snapshots of a partition, ascending."""
    found = map(_NAME.fullmatch, files.listdir(directory))
    return sorted(int(name[1]) for name in found if name is not None)


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    parts = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.batches[-1].offset_delta if entry.batches else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
        for entry in entries
    ]
    body = len(parts).to_bytes(4, "big") + b"".join(parts)
    crc: int = crc32.iscsi(body)
    return _VERSION.to_bytes(2, "big") + crc.to_bytes(4, "big") + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a header")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32.iscsi(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshot("the checksum does not match")
    if len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes do not hold {count} entries")
    return [_entry(fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]


def _entry(fields: tuple[int, ...]) -> ProducerEntry:
    """In the order of Kafka's file: the last batch's sequence, offset and delta in the middle."""
    entry = ProducerEntry(fields[0])
    entry.producer_epoch = fields[1]
    last_sequence, last_offset, offset_delta = fields[2:5]
    entry.last_timestamp = fields[5]
    entry.coordinator_epoch = fields[6]
    entry.transaction_first_offset = fields[7]
    if last_offset >= 0:
        batch = BatchMetadata(last_sequence, last_offset, offset_delta, entry.last_timestamp)
        entry.batches.append(batch)
    return entry


class ProducerSnapshots:
    """One log's snapshots, by offset. PartitionLog says when to take one."""

    __slots__ = ("_directory", "_files", "_offsets")

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._offsets = snapshot_offsets(files, directory)

    def moved(self, directory: Path) -> None:
        """The folder has been renamed."""
        self._directory = directory

    def is_due(self, log_end_offset: int, first_offset: int) -> bool:
        """Whether the log has grown since the last one. A log without records needs none."""
        return log_end_offset > (self._offsets[-1] if self._offsets else first_offset)

    def take(self, producers: ProducerState, offset: int) -> None:
        """Writes the state as of this offset, so that a restart need not replay the log."""
        data = encode_snapshot(producers.entries.values())
        self._files.write_file_atomic(snapshot_path(self._directory, offset), data, sync=False)
        self._offsets.append(offset)

    def fsync_newest(self) -> None:
        """Before removing batches that it covers.

        Blocks, so call it from a thread. If someone removed it, there is nothing to sync.
        """
        if not self._offsets:
            return
        with suppress(FileNotFoundError):
            file = self._files.open(snapshot_path(self._directory, self._offsets[-1]), create=False)
            try:
                file.fsync()
            finally:
                file.close()
            self._files.fsync_dir(self._directory)

    def keep_between(self, log_start_offset: int, log_end_offset: int) -> None:
        """After a truncation: the others describe what is gone."""
        for offset in self._offsets:
            if offset > log_end_offset or offset <= log_start_offset:
                self._files.remove(snapshot_path(self._directory, offset))

    def keep_from(self, first_offset: int) -> None:
        """After retention."""
        for offset in [old for old in self._offsets if old < first_offset]:
            self._offsets.remove(offset)
            self._files.remove(snapshot_path(self._directory, offset))

    def reload(self) -> None:
        self._offsets = snapshot_offsets(self._files, self._directory)
