"""Index files that are empty, full of zeros or gone are rebuilt before a read or retention uses
them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.steps import finish
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.segment import Segment
from floodmark.storage.log_config import LogConfig
from floodmark.storage.retention import segments_due
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
FOLDER = Path("/logs/t-0")
CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=300, retention_ms=3_600_000)
BATCHES = 60
ENTRY_BYTES = 12


def written() -> MemoryFiles:
    files = MemoryFiles()
    log = PartitionLog.open(files, FOLDER, CONFIG, now_ms=NOW_MS)
    for number in range(BATCHES):
        batch = encode_batch([Record(0, NOW_MS + number, b"k", b"v" * 40, [])])
        log.append(batch, read_header(batch), 0, NOW_MS)
    log.close(NOW_MS)
    return files


@pytest.mark.parametrize(
    ("suffix", "damage"),
    # An offset index that is cut only makes the walk from its last entry longer.
    [(".timeindex", "cut"), *product((".index", ".timeindex"), ("emptied", "zeroed", "removed"))],
)
def test_they_are_made_anew(suffix: str, damage: str) -> None:
    files = written()
    whole = {path: data for path, data in files.tree() if path.suffix == suffix}
    assert all(whole.values())
    for path, data in whole.items():
        files.remove(path)
        if damage == "zeroed":
            files.open(path).append(bytes(len(data)))
        elif damage == "cut":
            files.open(path).append(data[: len(data) // 2 // ENTRY_BYTES * ENTRY_BYTES])
        elif damage == "emptied":
            files.open(path)
    log = PartitionLog.open(files, FOLDER, CONFIG, now_ms=NOW_MS, recovery_point=BATCHES)
    assert segments_due(log, NOW_MS + 60_000, BATCHES) == 0
    found = finish(log.offset_for_timestamp(NOW_MS + 2, BATCHES))
    assert found is not None
    assert found.offset == 2
    for segment in log.segments:
        segment.load_indexes()
    assert {path: data for path, data in files.tree() if path.suffix == suffix} == whole


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["removed", "emptied"])
def test_a_lost_index_is_rebuilt_when_the_log_opens_and_not_by_a_reader(
    suffix: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written()
    for path, _ in list(files.tree()):
        if path.suffix == suffix:
            files.remove(path)
            if damage == "emptied":
                files.open(path)
    log = PartitionLog.open(files, FOLDER, CONFIG, now_ms=NOW_MS, recovery_point=BATCHES)
    monkeypatch.delattr(Segment, "rebuild_indexes")
    for offset in range(BATCHES):
        assert log.read(offset, 1, end_offset=BATCHES) is not None
    assert log.offset_for_timestamp(NOW_MS + 2, BATCHES) is not None
    assert segments_due(log, NOW_MS + 60_000, BATCHES) == 0
