"""Apache Kafka's DumpLogSegments finds nothing wrong with what we write."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.records.batch import read_header
from floodmark.records.compression import Compression
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, encode_batch
from floodmark.storage.files import RealFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_state import AppendOrigin
from kit.jars import KAFKA_3, KAFKA_4
from kit.kafka_tools import dump_segments, verify_segments
from kit.tools import require_tool

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=512)


def open_log(directory: Path, *, clean: bool) -> PartitionLog:
    return PartitionLog.open(RealFiles(), directory, CONFIG, now_ms=NOW_MS, clean=clean)


def write(log: PartitionLog) -> None:
    """All compressions, times that go back, idempotent and transactional batches, two epochs."""
    for number in range(400):
        time = NOW_MS + number * 10 - (number % 7) * 25
        records = [Record(0, time + i, b"k", b"v" * (number % 50), [("h", b"x")]) for i in range(3)]
        append(log, encode_batch(records, compression=Compression(number % 5)), number // 200)
        append(
            log,
            encode_batch(records, producer_id=9, producer_epoch=0, base_sequence=number * 3),
            number // 200,
        )
        if number % 20 == 0:
            transactional = encode_batch(
                records[:1],
                producer_id=77,
                producer_epoch=0,
                base_sequence=number // 20,
                is_transactional=True,
            )
            append(log, transactional, number // 200)
            kind = ControlType.ABORT if number % 40 else ControlType.COMMIT
            marker = EndTransactionMarker(kind, 3)
            batch = encode_marker(marker, producer_id=77, producer_epoch=0, timestamp_ms=time)
            append(log, batch, number // 200, AppendOrigin.COORDINATOR)


def append(
    log: PartitionLog,
    batch: bytearray,
    leader_epoch: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> None:
    log.append(batch, read_header(batch), leader_epoch, NOW_MS, origin=origin)


@pytest.mark.java
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("version", [KAFKA_3, KAFKA_4])
def test_dump_log_segments_accepts_every_file(tmp_path: Path, version: str, clean: bool) -> None:
    require_tool("java", "mvn")
    directory = tmp_path / "t-0"
    log = open_log(directory, clean=True)
    write(log)
    log.close(NOW_MS, clean=clean)
    log = open_log(directory, clean=clean)
    log.close(NOW_MS)
    assert len(log.segments) > 2
    dump = verify_segments(directory, version)
    assert dump.count("| offset:") == log.log_end_offset
    others = [*directory.glob("*.txnindex"), *directory.glob("*.snapshot")]
    dump = dump_segments(others, version=version)
    assert "producerId: 77" in dump
    assert "lastStableOffset" in dump
