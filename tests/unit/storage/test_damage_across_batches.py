"""One damaged stretch that reaches from a batch into the offset of the next, which no checksum
covers; and damage with garbage behind the end of the log. What is whole stays, and is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.records.batch import HEADER_BYTES, iter_headers, read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.verification import DamagedBatch
from floodmark.storage.log_config import LogConfig
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
FOLDER = Path("/logs/t-0")
CONFIG = LogConfig(segment_bytes=4_000, index_interval_bytes=500)
BATCHES = 100
DAMAGED = 9


def written() -> tuple[MemoryFiles, PartitionLog]:
    files = MemoryFiles()
    log = PartitionLog.open(files, FOLDER, CONFIG, now_ms=NOW_MS)
    for number in range(BATCHES):
        batch = encode_batch([Record(0, NOW_MS + number, b"k", b"v%d" % number, [])])
        log.append(batch, read_header(batch), 0, NOW_MS)
    log.close(NOW_MS)
    assert len(log.segments) > 1
    return files, log


def reopened(files: MemoryFiles, *, clean: bool, recovery_point: int) -> PartitionLog:
    return PartitionLog.open(
        files, FOLDER, CONFIG, now_ms=NOW_MS, clean=clean, recovery_point=recovery_point
    )


def log_files(files: MemoryFiles) -> dict[str, int]:
    return {path.name: len(data) for path, data in files.tree() if path.suffix == ".log"}


def offsets_served(log: PartitionLog) -> list[int]:
    """By a reader who goes on behind damage where he is told to."""
    offsets: list[int] = []
    position = 0
    while position < log.log_end_offset:
        try:
            records = log.read(position, 1, end_offset=log.log_end_offset)
        except DamagedBatch as damage:
            assert damage.after is not None
            position = damage.after[1]
            continue
        assert records is not None
        for _, header in iter_headers(records.read()):
            offsets.append(header.base_offset)
            position = header.next_offset
    return offsets


@pytest.mark.parametrize("byte_of_offset", [0, 4, 7])
@pytest.mark.parametrize(
    ("clean", "recovery_point"), [(True, BATCHES), (False, BATCHES), (False, BATCHES // 2)]
)
def test_nothing_is_cut_and_no_wrong_offset_is_served(
    clean: bool, recovery_point: int, byte_of_offset: int
) -> None:
    files, log = written()
    path = log.segments[0].path
    before = log_files(files)
    position = [position for position, _ in iter_headers(files.read_file(path))][DAMAGED + 1]
    files.flip_bit(path, position - 1)
    files.flip_bit(path, position + byte_of_offset)
    log = reopened(files, clean=clean, recovery_point=recovery_point)
    assert log.log_end_offset == BATCHES
    assert log_files(files) == before
    served = offsets_served(log)
    assert served == sorted(set(served))
    lost = set(range(BATCHES)) - set(served)
    assert lost == set(range(DAMAGED, DAMAGED + len(lost)))
    assert len(lost) < BATCHES // 5, "what lies behind the next index entry can be read"


def test_garbage_behind_the_end_does_not_let_damage_before_it_be_cut() -> None:
    files, log = written()
    path = log.active.path
    size_bytes = log.active.size_bytes
    position = [position for position, _ in iter_headers(files.read_file(path))][1]
    files.flip_bit(path, position + HEADER_BYTES + 1)
    files.open(path).append(bytes(100))
    log = reopened(files, clean=True, recovery_point=BATCHES)
    assert log.log_end_offset == BATCHES
    assert log.active.size_bytes == size_bytes
    assert len(offsets_served(log)) == BATCHES - 1
