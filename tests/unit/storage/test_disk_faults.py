"""Full disks, failing disks and flipped bits."""

from __future__ import annotations

import errno
import zlib
from pathlib import Path

import pytest

from floodmark.records.batch import iter_headers, read_header
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.errors import CorruptRecord
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.storage.errors import DiskFull, LogClosed, LogDirFailure, UnsupportedLogFormat
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
DIRECTORY = Path("/logs/t-0")


def open_log(
    files: MemoryFiles, *, clean: bool = True, recovery_point: int = 0, segment_bytes: int = 1 << 20
) -> PartitionLog:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200)
    return PartitionLog.open(
        files, DIRECTORY, config, now_ms=NOW_MS, clean=clean, recovery_point=recovery_point
    )


def append(log: PartitionLog, value: bytes = b"value") -> int:
    batch = encode_batch([Record(0, NOW_MS, b"k", value, [])])
    base_offset = log.log_end_offset
    log.append(batch, read_header(batch), 0, NOW_MS)
    return base_offset


def values(log: PartitionLog) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = log.log_start_offset
    while (piece := log.read(offset, 1 << 20, end_offset=log.log_end_offset)) is not None:
        data = piece.read()
        for position, header in iter_headers(data):
            found += [record.value for record in decode_records(data, position)]
            offset = header.next_offset
    return found


@pytest.mark.parametrize("space_bytes", [0, 1, 60, 75])
def test_a_full_disk_refuses_the_append_and_keeps_the_log(space_bytes: int) -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"before")
    files.faults.space_bytes = space_bytes
    with pytest.raises(DiskFull):
        append(log, b"does not fit")
    assert log.log_end_offset == 1
    assert values(log) == [b"before"]
    files.faults.space_bytes = None
    assert append(log, b"after") == 1
    assert values(log) == [b"before", b"after"]


def test_a_disk_that_fills_at_any_point_of_many_rolls_is_survived() -> None:
    for space_bytes in range(0, 1600, 7):
        files = MemoryFiles()
        log = open_log(files, segment_bytes=300)
        acknowledged = []
        for number in range(4):
            acknowledged.append(b"before %d" % number)
            append(log, acknowledged[-1])
        files.faults.space_bytes = space_bytes
        for number in range(12):
            value = b"while full %d" % number
            try:
                append(log, value)
            except DiskFull:
                continue
            acknowledged.append(value)
        files.faults.space_bytes = None
        acknowledged.append(b"after")
        append(log, b"after")
        assert values(log) == acknowledged
        # The process ends without a word; what was acknowledged is in the page cache.
        again = open_log(files, clean=False, segment_bytes=300)
        assert values(again) == acknowledged


def test_an_io_error_takes_the_folder_offline() -> None:
    files = MemoryFiles()
    log = open_log(files)
    files.faults.errors["append"] = errno.EIO
    with pytest.raises(LogDirFailure) as caught:
        append(log)
    assert caught.value.directory == DIRECTORY.parent
    assert log.log_end_offset == 0


def test_a_read_only_disk_takes_the_folder_offline() -> None:
    files = MemoryFiles()
    log = open_log(files)
    files.faults.read_only = True
    with pytest.raises(LogDirFailure):
        append(log)


def test_a_failed_fsync_is_never_taken_for_durable() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log)
    files.faults.errors["fsync"] = errno.EIO
    with pytest.raises(LogDirFailure):
        log.fsync()
    assert log.recovery_point == 0


def test_a_flipped_bit_above_the_recovery_point_is_found_and_never_served() -> None:
    pristine = MemoryFiles()
    log = open_log(pristine)
    for number in range(5):
        append(log, b"value %d" % number)
    size_bytes = log.size_bytes
    log.close(NOW_MS, clean=False)
    expected = [b"value %d" % number for number in range(5)]
    for position in range(0, size_bytes, 3):
        files = pristine.at(pristine.operations)
        files.flip_bit(DIRECTORY / "00000000000000000000.log", position, position % 8)
        recovered = values(open_log(files, clean=False))
        # The base offset and the leader epoch lie outside of the checksum: a flip there is found
        # by the order of offsets or harms no record.
        assert recovered == expected[: len(recovered)]


def test_a_follower_refuses_a_batch_with_a_flipped_bit() -> None:
    files = MemoryFiles()
    log = open_log(files)
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
    batch[-1] ^= 1
    with pytest.raises(CorruptRecord):
        log.append_as_follower(batch, NOW_MS)
    assert log.log_end_offset == 0


def test_a_full_disk_at_a_new_leader_epoch_leaves_no_half_appended_batch() -> None:
    files = MemoryFiles()
    log = open_log(files)
    batch = encode_batch(
        [Record(0, NOW_MS, b"k", b"v", [])], producer_id=1, producer_epoch=0, base_sequence=0
    )
    files.faults.space_bytes = 3
    with pytest.raises(DiskFull):
        log.append(batch, read_header(batch), 5, NOW_MS)
    assert (log.log_end_offset, log.leader_epochs.latest) == (0, -1)
    files.faults.space_bytes = None
    assert log.append(batch, read_header(batch), 5, NOW_MS) is None
    assert log.append(batch, read_header(batch), 5, NOW_MS) is not None, "the second is a repeat"
    assert log.leader_epochs.epochs == [5]


def test_a_full_disk_delays_the_transaction_index_but_not_the_marker() -> None:
    files = MemoryFiles()
    log = open_log(files)
    batch = encode_batch(
        [Record(0, NOW_MS, b"k", b"v", [])],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    log.append(batch, read_header(batch), 0, NOW_MS)
    marker = encode_marker(
        EndTransactionMarker(ControlType.ABORT, 0),
        producer_id=1,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
    files.faults.space_bytes = len(marker) + 5
    log.append(marker, read_header(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    aborted = log.aborted_transactions(0, 2)
    assert len(aborted) == 1
    files.faults.space_bytes = None
    log.close(NOW_MS)
    assert open_log(files).aborted_transactions(0, 2) == aborted


def test_fsync_and_read_of_a_deleted_log_do_not_take_the_folder_offline() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log)
    log.delete()
    assert log.fsync() == 1
    with pytest.raises(LogClosed):
        log.read(0, 10, end_offset=1)
    with pytest.raises(LogClosed):
        append(log)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_in_the_old_format_is_refused_and_left_as_it_is(clean: bool) -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log)
    log.close(NOW_MS, clean=clean)
    body = b"\x01\x00" + bytes(8) + b"\xff\xff\xff\xff\x00\x00\x00\x05hello"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    old = (1).to_bytes(8, "big") + len(message).to_bytes(4, "big") + message + bytes(60)
    path = DIRECTORY / "00000000000000000000.log"
    files.open(path).append(old)
    before = files.read_file(path)
    with pytest.raises(UnsupportedLogFormat):
        open_log(files, clean=clean)
    assert files.read_file(path) == before


def test_a_broken_tail_after_a_clean_stop_is_cut_as_well() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"good")
    log.close(NOW_MS)
    files.open(DIRECTORY / "00000000000000000000.log").append(b"\xee" * 100)
    again = open_log(files)
    assert values(again) == [b"good"]
    assert append(again) == 1


def test_a_log_that_cannot_be_closed_cleanly_on_a_full_disk_is_closed_all_the_same() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log)
    files.faults.space_bytes = 0
    with pytest.raises(DiskFull):
        log.close(NOW_MS)
    files.faults.errors["fsync"] = errno.EIO
    assert log.fsync() == 1


def test_retention_makes_room_although_the_disk_is_too_full_for_a_new_segment() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for _ in range(3):
        append(log)
        log.roll(NOW_MS)
    append(log)
    files.faults.space_bytes = 0
    assert len(log.retire(log.detach_oldest(4, NOW_MS))) == 3
    assert log.log_start_offset == 3
    with pytest.raises(DiskFull):
        log.retire(log.detach_oldest(1, NOW_MS))
    files.faults.space_bytes = None
    assert len(log.retire(log.detach_oldest(1, NOW_MS))) == 1
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
