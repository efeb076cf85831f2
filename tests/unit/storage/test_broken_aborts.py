"""Which transactions were aborted is known again after a broken index, whatever crashes then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from floodmark.records.batch import read_header
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, encode_batch
from floodmark.storage.indexes.transaction_index import ENTRY_BYTES
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
FOLDER = Path("/logs/t-0")
CONFIG = LogConfig(segment_bytes=450, index_interval_bytes=150)
ABORTED = 6
END = ABORTED * 2
IMAGES_PER_MOMENT = 12


def opened(files: MemoryFiles, *, recovery_point: int, clean: bool = False) -> PartitionLog:
    return PartitionLog.open(
        files, FOLDER, CONFIG, now_ms=NOW_MS, clean=clean, recovery_point=recovery_point
    )


def append_aborted(log: PartitionLog, number: int) -> None:
    records = [Record(0, NOW_MS, b"k", b"v" * 50, [])]
    batch = encode_batch(
        records, producer_id=5, producer_epoch=0, base_sequence=number, is_transactional=True
    )
    log.append(batch, read_header(batch), 0, NOW_MS)
    marker = encode_marker(
        EndTransactionMarker(ControlType.ABORT, 0),
        producer_id=5,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
    log.append(marker, read_header(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)


def written(*, clean: bool) -> tuple[MemoryFiles, list[Path]]:
    """A log of aborted transactions in several segments, and the indexes that tell of them."""
    files = MemoryFiles()
    files.mkdir(FOLDER.parent)
    files.fsync_dir(FOLDER.parent.parent)
    log = opened(files, recovery_point=0, clean=True)
    for number in range(ABORTED):
        append_aborted(log, number)
    log.close(NOW_MS, clean=clean)
    names = [FOLDER / name for name in files.listdir(FOLDER) if name.endswith(".txnindex")]
    assert len(names) >= 3
    return files, names


def losses(files: MemoryFiles, since: int) -> Iterator[MemoryFiles]:
    """What power losses may leave, at every moment from then on."""
    for operations in range(since, files.operations + 1):
        disk = files.at(operations)
        yield from disk.crashes(IMAGES_PER_MOMENT, Random(operations))


def aborted_offsets(log: PartitionLog) -> list[int]:
    return [entry.first_offset for entry in log.aborted_transactions(0, log.log_end_offset)]


ALL_ABORTED = list(range(0, END, 2))


@pytest.mark.parametrize("broken", [[0], [1], [0, 2], [2]])
def test_aborts_are_known_after_a_power_loss_while_a_broken_index_is_made_anew(
    broken: list[int],
) -> None:
    files, indexes = written(clean=True)
    for number in broken:
        file = files.open(indexes[number])
        file.append(b"x" * 7)
        file.fsync()
    begin = files.operations
    first = opened(files, recovery_point=END)
    assert aborted_offsets(first) == ALL_ABORTED
    for image in losses(files, begin):
        log = opened(image, recovery_point=END)
        assert aborted_offsets(log) == ALL_ABORTED
        assert log.log_end_offset == END
        assert not [name for name in image.listdir(FOLDER) if name.endswith(".broken")]


def test_a_kill_while_a_broken_index_is_made_anew_costs_no_aborts() -> None:
    files, indexes = written(clean=True)
    files.open(indexes[1]).append(b"x" * 7)
    begin = files.operations
    opened(files, recovery_point=END)
    for operations in range(begin, files.operations + 1):
        assert aborted_offsets(opened(files.at(operations), recovery_point=END)) == ALL_ABORTED


def test_indexes_that_recovery_has_made_survive_a_power_loss_after_the_next_sync() -> None:
    files, _ = written(clean=False)
    log = opened(files, recovery_point=0)
    log.fsync()
    assert log.recovery_point == END
    for image in losses(files, files.operations):
        assert aborted_offsets(opened(image, recovery_point=END)) == ALL_ABORTED


def test_zeros_are_no_entry_of_the_index() -> None:
    files, indexes = written(clean=True)
    for path in indexes:
        files.open(path).truncate(0)
        files.open(path).append(bytes(ENTRY_BYTES))
    assert aborted_offsets(opened(files, recovery_point=END, clean=True)) == ALL_ABORTED


def test_what_others_have_left_in_the_folder_is_left_alone() -> None:
    files, _ = written(clean=True)
    strangers = ["notes.cleaned", "my.swap", "1.log", "x.index", "abc.deleted", "z.snapshot"]
    for name in strangers:
        files.open(FOLDER / name).append(b"hello")
    log = opened(files, recovery_point=END, clean=True)
    assert log.log_end_offset == END
    assert set(strangers) <= set(files.listdir(FOLDER))
