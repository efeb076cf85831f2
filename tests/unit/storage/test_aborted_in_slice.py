"""A read_committed fetch lists the aborts in the records it returns, not all later ones."""

from pathlib import Path

from floodmark.records.batch import read_header
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, encode_batch
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.testing.memory_files import MemoryFiles

ABORTS = 500


def log_of_aborts(segment_bytes: int) -> PartitionLog:
    config = LogConfig(segment_bytes=segment_bytes)
    log = PartitionLog.open(MemoryFiles(), Path("/logs/t-0"), config, now_ms=1)
    for number in range(ABORTS):
        batch = encode_batch(
            [Record(0, 1, None, b"x" * 100, [])],
            producer_id=5,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        log.append(batch, read_header(batch), 0, 1)
        marker = encode_marker(
            EndTransactionMarker(ControlType.ABORT, 0),
            producer_id=5,
            producer_epoch=0,
            timestamp_ms=1,
        )
        log.append(marker, read_header(marker), 0, 1, origin=AppendOrigin.COORDINATOR)
    return log


def aborts_for(log: PartitionLog, offset: int, max_bytes: int) -> list[int]:
    records = log.read(offset, max_bytes, end_offset=log.log_end_offset)
    end_offset = log.end_of_slice(offset, records)
    return [a.first_offset for a in log.aborted_transactions(offset, end_offset)]


def test_a_small_fetch_of_a_long_log_carries_few_aborts():
    for segment_bytes in (1 << 30, 20_000):
        log = log_of_aborts(segment_bytes)
        for offset in (0, 100, 2 * ABORTS - 4):
            told = aborts_for(log, offset, 2000)
            assert told[0] <= offset
            assert len(told) < 60


def test_every_abort_in_the_slice_is_told():
    log = log_of_aborts(20_000)
    offset = 0
    told: set[int] = set()
    while offset < log.log_end_offset:
        records = log.read(offset, 3000, end_offset=log.log_end_offset)
        data = records.read()
        told |= set(aborts_for(log, offset, 3000))
        position = 0
        while position + 61 <= len(data):
            header = read_header(data, position)
            if position + header.size_bytes > len(data):
                break
            if not header.is_control:
                assert header.base_offset in told
            position += header.size_bytes
            offset = header.next_offset
    assert len(told) == ABORTS
