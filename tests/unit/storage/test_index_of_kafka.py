"""An index of Kafka has the last offset of all batches that were appended together."""

from __future__ import annotations

from pathlib import Path
from struct import Struct

import pytest

from floodmark.records.batch import iter_headers, read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.verification import DamagedBatch
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFile, MemoryFiles

NOW_MS = 1_700_000_000_000
FOLDER = Path("/logs/t-0")
BATCHES = 4000
ENTRY = Struct(">ii")


def written(appended_together: int) -> MemoryFiles:
    """A stopped log of one segment whose index is as if that many batches had come at a time."""
    files = MemoryFiles()
    log = PartitionLog.open(files, FOLDER, LogConfig(), now_ms=NOW_MS)
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v" * 300, [])])
    for _ in range(BATCHES):
        log.append(bytearray(batch), read_header(batch), 0, NOW_MS)
    log.close(NOW_MS)
    positions = [position for position, _ in iter_headers(files.read_file(log.active.path))]
    path = log.active.path.with_suffix(".index")
    files.open(path).truncate(0)
    for first in range(appended_together, BATCHES, max(appended_together, 12)):
        last = min(first + appended_together, BATCHES) - 1
        files.open(path).append(ENTRY.pack(last, positions[first]))
    return files


def reopened(files: MemoryFiles) -> PartitionLog:
    return PartitionLog.open(
        files, FOLDER, LogConfig(), now_ms=NOW_MS, clean=True, recovery_point=BATCHES
    )


def bytes_read(monkeypatch: pytest.MonkeyPatch, files: MemoryFiles) -> int:
    """What opening the log and some reads here and there take from the disk."""
    taken = 0
    pread = MemoryFile.pread

    def counted(file: MemoryFile, size: int, position: int) -> bytes:
        nonlocal taken
        data = pread(file, size, position)
        taken += len(data)
        return data

    monkeypatch.setattr(MemoryFile, "pread", counted)
    log = reopened(files)
    for offset in (BATCHES // 2, BATCHES // 4, BATCHES // 4 * 3):
        found = log.read(offset, 1000, end_offset=BATCHES)
        assert found is not None
        assert read_header(found.read()).base_offset == offset
    return taken


@pytest.mark.parametrize("appended_together", [1, 2, 40])
def test_cold_reads_take_little_from_the_disk(
    monkeypatch: pytest.MonkeyPatch, appended_together: int
) -> None:
    files = written(appended_together)
    assert bytes_read(monkeypatch, files) < 2_000_000


def test_cold_reads_are_bounded_where_the_index_vouches_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = written(1)
    path = FOLDER / "00000000000000000000.index"
    entries = list(ENTRY.iter_unpack(files.read_file(path)))
    files.open(path).truncate(0)
    # As after compaction: the offsets in the entries are those of records that went.
    for offset, position in entries:
        files.open(path).append(ENTRY.pack(offset * 2 + BATCHES, position))
    size_bytes = files.size(FOLDER / "00000000000000000000.log")
    assert bytes_read(monkeypatch, files) < 10 * size_bytes


def test_a_changed_offset_is_found_behind_such_an_entry() -> None:
    files = written(2)
    path = FOLDER / "00000000000000000000.log"
    positions = [position for position, _ in iter_headers(files.read_file(path))]
    (last, indexed), *_ = [
        entry
        for entry in ENTRY.iter_unpack(files.read_file(path.with_suffix(".index")))
        if entry[0] > BATCHES // 2
    ]
    offset = positions.index(indexed)
    assert offset == last - 1
    for bit in range(4):
        files.flip_bit(path, indexed + 7, bit)
        with pytest.raises(DamagedBatch):
            reopened(files).read(offset, 1000, end_offset=BATCHES)
        files.flip_bit(path, indexed + 7, bit)
