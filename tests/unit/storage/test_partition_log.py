"""The partition log on a real disk: append, read, roll, restart, truncate."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.records.batch import iter_headers, read_header
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.storage.errors import OffsetOutOfRange
from floodmark.storage.files import RealFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig

NOW_MS = 1_700_000_000_000


def open_log(directory: Path, *, clean: bool = True, **settings: int) -> PartitionLog:
    return PartitionLog.open(
        RealFiles(),
        directory / "orders-3",
        LogConfig(**settings),  # type: ignore[arg-type]
        now_ms=NOW_MS,
        clean=clean,
    )


def append(
    log: PartitionLog, count: int = 1, *, timestamp: int = NOW_MS, value: bytes = b"value"
) -> int:
    """The offset that the first record got."""
    batch = encode_batch([Record(0, timestamp + i, b"k", value, []) for i in range(count)])
    base_offset = log.log_end_offset
    assert log.append(batch, read_header(batch), 0, NOW_MS) is None
    return base_offset


def read_all(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 20) -> list[Record]:
    records: list[Record] = []
    while True:
        found = log.read(offset, max_bytes, end_offset=log.log_end_offset)
        if found is None:
            return records
        data = found.read()
        for position, _ in iter_headers(data):
            records += decode_records(data, position)
        offset = records[-1].offset + 1


def test_offsets_are_dense_and_read_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert (log.topic, log.partition) == ("orders", 3)
    assert append(log, 3) == 0
    assert append(log, 2) == 3
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3, 4]
    assert log.read(5, 100, end_offset=5) is None
    log.close(NOW_MS)


def test_a_leader_stamps_its_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = encode_batch([Record(0, NOW_MS, None, b"v", [])])
    for _ in range(3):
        log.append(batch, read_header(batch), 7, NOW_MS)
    assert [record.offset for record in read_all(log)] == [0, 1, 2]
    assert log.leader_epochs.latest == read_header(batch).partition_leader_epoch == 7
    log.close(NOW_MS)


def test_reads_outside_of_the_log_are_out_of_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, end_offset=1)
    log.close(NOW_MS)


def test_a_read_stops_at_the_end_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sizes = [len(encode_batch([Record(0, NOW_MS, b"k", b"value", [])]))] * 3
    for _ in sizes:
        append(log)
    found = log.read(0, 1 << 20, end_offset=2)
    assert found is not None
    assert found.size_bytes == sum(sizes[:2])
    assert log.read(2, 1 << 20, end_offset=2) is None
    log.close(NOW_MS)


def test_the_first_batch_is_whole_however_small_the_limit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 10)
    append(log, 10)
    found = log.read(3, 1, end_offset=20)
    assert found is not None
    assert [record.offset for record in decode_records(found.read())] == list(range(10))
    log.close(NOW_MS)


def test_a_batch_that_does_not_fit_is_left_out_and_only_one_behind_it_is_cut(
    tmp_path: Path,
) -> None:
    # Java's consumer fails on records without a single whole batch.
    log = open_log(tmp_path)
    append(log, 10)
    append(log, 10)
    size_bytes = log.size_bytes // 2
    for limit in (0, 1, size_bytes - 1):
        assert log.read(3, limit, end_offset=20, min_one_batch=False) is None
    for limit in (size_bytes, size_bytes + 1):
        found = log.read(3, limit, end_offset=20, min_one_batch=False)
        assert found is not None and found.size_bytes == limit
    log.close(NOW_MS)


def test_a_small_segment_size_rolls_and_everything_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=2000, index_interval_bytes=200)
    for _ in range(200):
        append(log, 2)
    assert len(log.segments) > 5
    assert [record.offset for record in read_all(log, max_bytes=300)] == list(range(400))
    for offset in range(400):
        found = log.read(offset, 1, end_offset=400)
        assert found is not None
        assert offset in [record.offset for record in decode_records(found.read())]
    log.close(NOW_MS)


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_the_same_log(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path, segment_bytes=2000, index_interval_bytes=200)
    for _ in range(100):
        append(log, 2)
    before = read_all(log)
    log.close(NOW_MS, clean=clean)
    again = open_log(tmp_path, clean=clean, segment_bytes=2000, index_interval_bytes=200)
    assert read_all(again) == before
    assert again.log_end_offset == 200
    assert append(again) == 200
    assert [record.offset for record in read_all(again, 150)][-1] == 200
    again.close(NOW_MS)
