"""Time lookup, retention, log start, rolls by time, indexes and what adoption has to cope with."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from floodmark.records.batch import HEADER_BYTES, iter_headers, read_header
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.steps import finish
from floodmark.storage.errors import OffsetOutOfRange, OffsetsOutOfOrder, StorageError
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig, log_config_from, produce_rules_from
from floodmark.testing.memory_files import MemoryFiles
from kit.retention import apply_retention

NOW_MS = 1_700_000_000_000
DIRECTORY = Path("/logs/t-0")


def open_log(files: MemoryFiles, *, clean: bool = True, **settings: int) -> PartitionLog:
    config = LogConfig(**settings)  # type: ignore[arg-type]
    return PartitionLog.open(files, DIRECTORY, config, now_ms=NOW_MS, clean=clean)


def append(log: PartitionLog, *timestamps: int, now_ms: int = NOW_MS, epoch: int = 0) -> None:
    batch = encode_batch([Record(0, timestamp, b"k", b"v", []) for timestamp in timestamps])
    log.append(batch, read_header(batch), epoch, now_ms)


def offsets(log: PartitionLog) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while (piece := log.read(offset, 1 << 20, end_offset=log.log_end_offset)) is not None:
        data = piece.read()
        for position, header in iter_headers(data):
            found += [record.offset for record in decode_records(data, position)]
            offset = header.next_offset
    return found


@pytest.mark.parametrize("restart", [None, True, False])
def test_the_first_record_at_or_after_a_time_is_found(restart: bool | None) -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=400, index_interval_bytes=100)
    times = [(i * 37) % 400 for i in range(120)]
    for slot in range(0, 120, 3):
        append(log, *times[slot : slot + 3], epoch=slot // 60)
    if restart is not None:
        log.close(NOW_MS, clean=restart)
        log = open_log(files, clean=restart, segment_bytes=400, index_interval_bytes=100)
    for wanted in range(0, 400, 7):
        expected = next((i for i, time in enumerate(times) if time >= wanted), None)
        found = finish(log.offset_for_timestamp(wanted, 120))
        if expected is None:
            assert found is None
        else:
            assert found == (times[expected], expected, expected // 60)
    newest = max(times)
    assert finish(log.max_timestamp_offset(120)) == (newest, times.index(newest), 0)
    assert finish(log.offset_for_timestamp(0, 0)) is None


@pytest.mark.parametrize("segment_bytes", [400, 1 << 20])
def test_the_largest_time_is_that_of_a_record_which_can_still_be_read(segment_bytes: int) -> None:
    log = open_log(MemoryFiles(), segment_bytes=segment_bytes, index_interval_bytes=100)
    times = [(i * 37) % 400 for i in range(120)]
    for slot in range(0, 120, 3):
        append(log, *times[slot : slot + 3])
    for start in range(120):
        log.advance_log_start(start)
        newest = max(times[start:])
        found = finish(log.max_timestamp_offset(120))
        assert found is not None
        assert found[:2] == (newest, times.index(newest, start))
    log.advance_log_start(120)
    assert finish(log.max_timestamp_offset(120)) is None


def test_the_largest_time_is_looked_for_where_it_is() -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=400)
    for number in range(40):
        append(log, NOW_MS + number)
    log.close(NOW_MS)
    files.flip_bit(log.segments[0].path, HEADER_BYTES + 1)
    again = open_log(files, segment_bytes=400)
    assert finish(again.max_timestamp_offset(40)) == (NOW_MS + 39, 39, 0)


def test_an_empty_log_has_no_record_by_time() -> None:
    log = open_log(MemoryFiles())
    assert finish(log.offset_for_timestamp(0, 10)) is None
    assert finish(log.max_timestamp_offset(10)) is None


def test_retention_by_time_removes_old_segments_below_the_high_watermark() -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=150, retention_ms=1000)
    for age_ms in (5000, 3000, 2000, 500):
        append(log, NOW_MS - age_ms)
        append(log, NOW_MS - age_ms)
    first = apply_retention(log, NOW_MS, 2)
    assert first is not None
    assert (len(first), log.log_start_offset) == (1, 2)
    deleted = [path.name for path, _ in files.tree() if path.name.endswith(".deleted")]
    assert "00000000000000000000.log.deleted" in deleted
    first.remove()
    assert not [path for path, _ in files.tree() if path.name.endswith(".deleted")]
    apply_retention(log, NOW_MS, 8)
    assert offsets(log) == [6, 7]
    assert apply_retention(log, NOW_MS, 8) is None
    apply_retention(log, NOW_MS + 5000, 8)
    assert (log.log_start_offset, log.log_end_offset, offsets(log)) == (8, 8, [])
    append(log, NOW_MS)
    assert offsets(log) == [8]


def test_retention_by_size_keeps_at_least_the_limit() -> None:
    log = open_log(MemoryFiles(), segment_bytes=150, retention_bytes=300, retention_ms=-1)
    for _ in range(10):
        append(log, NOW_MS)
    apply_retention(log, NOW_MS, 10)
    assert 300 <= log.size_bytes < 450
    assert offsets(log)[-1] == 9


def test_retention_leaves_a_compacted_log_alone_but_for_deleted_records() -> None:
    files = MemoryFiles()
    config = LogConfig(segment_bytes=150, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    log = PartitionLog.open(files, DIRECTORY, config, now_ms=NOW_MS)
    for _ in range(6):
        append(log, NOW_MS - 9999)
    assert apply_retention(log, NOW_MS, 6) is None
    log.advance_log_start(3)
    retired = apply_retention(log, NOW_MS, 6)
    assert retired is not None
    assert (len(retired), log.log_start_offset) == (1, 3)


def test_deleted_records_cannot_be_read() -> None:
    log = open_log(MemoryFiles())
    for _ in range(4):
        append(log, NOW_MS)
    log.advance_log_start(2)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100, end_offset=4)
    assert offsets(log)[0] == 2
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(5)


def test_a_segment_rolls_by_record_time() -> None:
    log = open_log(MemoryFiles(), segment_ms=1000)
    append(log, NOW_MS)
    append(log, NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, NOW_MS + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = open_log(MemoryFiles(), index_interval_bytes=1, segment_index_bytes=80)
    for _ in range(40):
        append(log, NOW_MS)
    assert len(log.segments) > 2
    assert all(len(segment.offset_index) <= 10 for segment in log.segments)
    assert offsets(log) == list(range(40))


@pytest.mark.parametrize("damage", ["missing", "short", "zeros", "garbage"])
def test_damaged_indexes_are_rebuilt(damage: str) -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=1000, index_interval_bytes=100)
    for number in range(60):
        append(log, NOW_MS + number)
    log.close(NOW_MS)
    sizes = {path: content for path, content in files.tree() if path.name.endswith("index")}
    for path, content in sizes.items():
        if damage == "missing":
            files.remove(path)
            continue
        file = files.open(path)
        file.truncate(0)
        damaged = {"short": content[:-1], "zeros": bytes(len(content))}
        file.append(damaged.get(damage, b"\xff" * len(content)))
    again = open_log(files, segment_bytes=1000, index_interval_bytes=100)
    assert offsets(again) == list(range(60))
    for number in range(60):
        found = finish(again.offset_for_timestamp(NOW_MS + number, 60))
        assert found is not None
        assert found.offset == number
    again.close(NOW_MS)
    rebuilt = {path: content for path, content in files.tree() if path.name.endswith("index")}
    assert rebuilt == sizes


def test_leftovers_of_deletion_and_compaction_go_and_finished_swaps_take_their_place() -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=150)
    for _ in range(4):
        append(log, NOW_MS)
    log.close(NOW_MS)
    for name in ("00000000000000000009.log.deleted", "00000000000000000008.log.cleaned"):
        files.open(DIRECTORY / name).append(b"junk")
    kept = [Record(3, NOW_MS, b"k", b"compacted", [])]
    swap = encode_batch(kept, base_offset=0, keep_offsets=True, last_offset=3)
    files.open(DIRECTORY / "00000000000000000000.log.swap").append(swap)
    again = open_log(files, segment_bytes=150)
    assert [segment.base_offset for segment in again.segments] == [0]
    assert again.log_end_offset == 4
    assert offsets(again) == [3]
    names = files.listdir(DIRECTORY)
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".swap"))]


@pytest.mark.parametrize("damaged", [bytes(100), b"\xff" * 100, b"\0" * 8 + b"\xff\xff\xff\xf4"])
def test_a_damaged_swap_does_not_take_the_place_of_good_segments(damaged: bytes) -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=150)
    for _ in range(4):
        append(log, NOW_MS)
    log.close(NOW_MS)
    files.open(DIRECTORY / "00000000000000000000.log.swap").append(damaged)
    again = open_log(files, segment_bytes=150)
    assert offsets(again) == [0, 1, 2, 3]


def test_a_log_start_above_the_log_end_begins_anew_there() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, NOW_MS)
    log.close(NOW_MS)
    again = PartitionLog.open(files, DIRECTORY, LogConfig(), now_ms=NOW_MS, log_start_offset=50)
    assert (again.log_start_offset, again.log_end_offset) == (50, 50)
    append(again, NOW_MS)
    assert offsets(again) == [50]


def test_a_follower_can_start_over_at_any_offset() -> None:
    log = open_log(MemoryFiles(), segment_bytes=150)
    for _ in range(6):
        append(log, NOW_MS, epoch=1)
    log.truncate_fully_and_start_at(1000, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    assert log.leader_epochs.epochs == [1]
    append(log, NOW_MS)
    assert offsets(log) == [1000]


def test_truncation_drops_whole_batches_and_ends_after_the_last() -> None:
    log = open_log(MemoryFiles(), segment_bytes=300)
    for _ in range(10):
        append(log, NOW_MS, NOW_MS)
    log.truncate_to(13, NOW_MS)
    assert log.log_end_offset == 12
    assert offsets(log) == list(range(12))
    append(log, NOW_MS)
    assert offsets(log) == list(range(13))


def test_a_follower_takes_gaps_but_nothing_below_its_end() -> None:
    log = open_log(MemoryFiles())
    first = encode_batch([Record(0, NOW_MS, b"k", b"v", [])], base_offset=5, leader_epoch=2)
    second = encode_batch([Record(0, NOW_MS, b"k", b"v", [])], base_offset=9, leader_epoch=4)
    log.append_as_follower(bytes(first + second) + b"\x00" * 30, NOW_MS)
    assert log.log_end_offset == 10
    assert log.leader_epochs.epochs == [2, 4]
    with pytest.raises(OffsetsOutOfOrder):
        log.append_as_follower(second, NOW_MS)


def test_settings_come_from_dotted_names() -> None:
    settings = {
        "segment.bytes": "1000",
        "retention.ms": -1,
        "cleanup.policy": "compact,delete",
        "compression.type": "zstd",
        "compression.zstd.level": "7",
        "message.timestamp.type": "LogAppendTime",
    }
    config = log_config_from(settings)
    assert (config.segment_bytes, config.retention_ms) == (1000, -1)
    assert config.is_compacted
    assert config.is_deleted
    rules = produce_rules_from(settings)
    assert rules.is_compacted
    assert (rules.compression, rules.compression_level) == (4, 7)
    assert rules.timestamp_type == 1
    assert produce_rules_from({}).compression is None


def read_end(log: PartitionLog, offset: int) -> bytes:
    piece = log.read(offset, 1 << 20, end_offset=log.log_end_offset)
    assert piece is not None
    return piece.read()


def test_a_small_batch_at_the_end_needs_no_read() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, 1)
    log.read(1, 1 << 20, end_offset=1)
    append(log, 2)
    files.faults.errors["pread"] = errno.EIO
    (record,) = decode_records(read_end(log, 1))
    assert (record.offset, record.timestamp) == (1, 2)
    with pytest.raises(StorageError):
        read_end(log, 0)


def test_what_was_at_the_end_before_a_truncation_is_forgotten() -> None:
    log = open_log(MemoryFiles())
    append(log, 1)
    append(log, 2)
    other = encode_batch([Record(0, 3, b"k", b"v", [])], base_offset=1)
    log.truncate_to(1, NOW_MS)
    assert [record.timestamp for record in decode_records(read_end(log, 0))] == [1]
    log.append_as_follower(bytes(other), NOW_MS)
    assert [record.timestamp for record in decode_records(read_end(log, 1))] == [3]
    log.truncate_to(1, NOW_MS)
    append(log, 4)
    assert [record.timestamp for record in decode_records(read_end(log, 1))] == [4]
    assert read_end(log, 1) == log.active.file.pread(1 << 20, log.active.size_bytes // 2)


def test_the_batch_that_is_waited_for_need_not_be_read() -> None:
    log = open_log(MemoryFiles())
    append(log, 1)
    assert log.read(1, 1 << 20, end_offset=1) is None, "somebody waits at the end"
    append(log, 2, 3)
    found = log.read(1, 1 << 20, end_offset=3)
    assert found is not None and found.data is not None
    assert [record.timestamp for record in decode_records(found.read())] == [2, 3]
    assert found.file.pread(found.size_bytes, found.position) == found.data
    in_full = log.read(1, 10, end_offset=3)
    assert in_full is not None and in_full.data == found.data
    assert log.read(1, 10, end_offset=3, min_one_batch=False) is None
    assert log.read(1, 1 << 20, end_offset=1) is None, "not below the high watermark yet"
    log.truncate_to(1, NOW_MS)
    assert log.read(1, 1 << 20, end_offset=1) is None
    append(log, 4)
    again = log.read(1, 1 << 20, end_offset=2)
    assert again is not None and decode_records(again.read())[0].timestamp == 4


def test_of_a_log_that_nobody_follows_no_batch_is_kept_in_memory() -> None:
    log = open_log(MemoryFiles())
    assert log.read(0, 1 << 20, end_offset=0) is None
    append(log, 1)
    append(log, 2)
    assert log.active.tail == b""
    found = log.read(1, 1 << 20, end_offset=2)
    assert found is not None and found.data is None
    assert [record.timestamp for record in decode_records(found.read())] == [2]
    append(log, 3)
    followed = log.read(2, 1 << 20, end_offset=3)
    assert followed is not None and followed.data is not None, "the one before was read"
