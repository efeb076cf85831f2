"""A lost or broken file beside the log, or damage within it, costs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from floodmark.records.batch import HEADER_BYTES, iter_headers, read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import LogDirFailure
from floodmark.storage.log.leader_epochs import FILE_NAME
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.recovery import recovery
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
FOLDER = Path("/logs/t-0")
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=250)
BATCHES = 35


def written(epochs: Sequence[int]) -> tuple[MemoryFiles, PartitionLog]:
    """A closed log of several segments with one batch of one record per given leader epoch."""
    files = MemoryFiles()
    log = PartitionLog.open(files, FOLDER, CONFIG, now_ms=NOW_MS)
    for number, leader_epoch in enumerate(epochs):
        batch = encode_batch([Record(0, NOW_MS + number, b"k", b"v" * 40, [])])
        log.append(batch, read_header(batch), leader_epoch, NOW_MS)
    log.close(NOW_MS)
    assert len(log.segments) >= 3
    return files, log


def reopened(files: MemoryFiles, *, clean: bool, recovery_point: int) -> PartitionLog:
    return PartitionLog.open(
        files, FOLDER, CONFIG, now_ms=NOW_MS, clean=clean, recovery_point=recovery_point
    )


@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_file_of_epochs_is_made_from_the_whole_log(clean: bool) -> None:
    epochs = list(range(BATCHES))
    files, _ = written(epochs)
    files.remove(FOLDER / FILE_NAME)
    log = reopened(files, clean=clean, recovery_point=BATCHES)
    assert log.log_end_offset == BATCHES
    assert log.leader_epochs.epochs == epochs
    assert log.leader_epochs.start_offsets == epochs
    log.close(NOW_MS)
    again = reopened(files, clean=True, recovery_point=BATCHES)
    assert again.leader_epochs.epochs == epochs, "the file does not have them all"


def test_a_lost_file_of_epochs_is_made_without_a_damaged_batch() -> None:
    files, written_log = written([number // 5 for number in range(BATCHES)])
    files.remove(FOLDER / FILE_NAME)
    path = written_log.segments[0].path
    (_, _), (position, _), *_ = iter_headers(files.read_file(path))
    files.flip_bit(path, position + HEADER_BYTES + 2, 1)
    log = reopened(files, clean=True, recovery_point=BATCHES)
    assert log.log_end_offset == BATCHES
    assert log.leader_epochs.start_offsets == list(range(0, BATCHES, 5))


def test_a_file_of_epochs_is_not_left_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = list(range(BATCHES))
    files, _ = written(epochs)
    files.remove(FOLDER / FILE_NAME)

    def fail(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "_epochs_from_log", fail)
        with pytest.raises(LogDirFailure):
            reopened(files, clean=False, recovery_point=BATCHES)
    log = reopened(files, clean=False, recovery_point=BATCHES)
    assert log.leader_epochs.epochs == epochs


@pytest.mark.parametrize("recovery_point", [0, BATCHES // 2])
def test_a_recovery_that_is_killed_costs_no_batch_of_a_short_epoch(recovery_point: int) -> None:
    epochs = list(range(BATCHES))
    files, _ = written(epochs)
    begin = files.operations
    reopened(files, clean=False, recovery_point=recovery_point)
    for operations in range(begin, files.operations + 1):
        log = reopened(files.at(operations), clean=False, recovery_point=recovery_point)
        assert log.log_end_offset == BATCHES
        assert log.leader_epochs.epochs == epochs


def test_a_broken_index_of_transactions_costs_no_data_where_compaction_left_gaps() -> None:
    files, written_log = written([0] * BATCHES)
    first = written_log.segments[0]
    *_, (position, _) = iter_headers(files.read_file(first.path))
    files.open(first.path).truncate(position)
    files.remove(first.path.with_suffix(".index"))
    files.open(first.path.with_suffix(".txnindex")).append(b"x" * 7)
    log = reopened(files, clean=True, recovery_point=BATCHES)
    assert log.log_end_offset == BATCHES
    assert log.recovery_point == BATCHES
    assert len(log.segments) == len(written_log.segments)


def test_damage_in_a_log_with_a_broken_index_of_transactions_is_not_cut() -> None:
    files, written_log = written([0] * BATCHES)
    path = written_log.segments[0].path
    (_, _), (position, _), *_ = iter_headers(files.read_file(path))
    files.flip_bit(path, position + HEADER_BYTES + 2, 1)
    files.open(path.with_suffix(".txnindex")).append(b"x" * 7)
    size_bytes = files.size(path)
    log = reopened(files, clean=True, recovery_point=BATCHES)
    assert log.log_end_offset == BATCHES
    assert files.size(path) == size_bytes


def test_segments_above_the_recovery_point_outlive_damage_below_it() -> None:
    files, written_log = written([0] * BATCHES)
    path = written_log.segments[0].path
    (_, _), (position, _), *_ = iter_headers(files.read_file(path))
    # The length: where the next batch begins is not known any more, nor is it in the index.
    files.flip_bit(path, position + 10, 0)
    files.open(path.with_suffix(".index")).truncate(0)
    log = reopened(files, clean=False, recovery_point=5)
    assert log.log_end_offset == BATCHES
    assert len(log.segments) == len(written_log.segments)


def test_a_hole_before_the_last_batch_is_believed_where_the_segment_has_another() -> None:
    files, written_log = written([0] * BATCHES)
    last = written_log.segments[-1]
    data = files.read_file(last.path)
    batches = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    assert len(batches) >= 5
    # As compaction leaves it; the topic's policy is "delete" now.
    files.open(last.path).truncate(0)
    files.open(last.path).append(b"".join([batches[0], *batches[2:-2], batches[-1]]))
    files.remove(last.path.with_suffix(".index"))
    log = reopened(files, clean=False, recovery_point=0)
    assert log.log_end_offset == BATCHES


@pytest.mark.parametrize("lost", [1, 100])
def test_offsets_of_lost_segments_are_not_given_to_other_records(
    lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    files, written_log = written([0] * BATCHES)
    for segment in written_log.segments[-lost:]:
        files.remove(segment.path)
    log = reopened(files, clean=True, recovery_point=BATCHES)
    assert log.log_end_offset == BATCHES
    assert "lost or damaged" in caplog.text
    batch = encode_batch([Record(0, NOW_MS, b"k", b"v", [])])
    assert log.log_end_offset == BATCHES
    assert log.append(batch, read_header(batch), 0, NOW_MS) is None
    log.close(NOW_MS)
    again = reopened(files, clean=False, recovery_point=BATCHES)
    assert again.log_end_offset == BATCHES + 1


def test_a_lost_or_emptied_segment_in_the_middle_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, written_log = written([0] * BATCHES)
    files.remove(written_log.segments[1].path)
    assert reopened(files, clean=True, recovery_point=BATCHES).log_end_offset == BATCHES
    assert "its records are lost" in caplog.text
    files, written_log = written([0] * BATCHES)
    files.open(written_log.segments[1].path).truncate(0)
    assert reopened(files, clean=True, recovery_point=BATCHES).log_end_offset == BATCHES
    assert "has lost its records" in caplog.text


def test_a_log_start_behind_the_end_of_a_stopped_log_is_not_believed() -> None:
    files, _ = written([0] * BATCHES)
    log = PartitionLog.open(
        files,
        FOLDER,
        CONFIG,
        now_ms=NOW_MS,
        clean=True,
        recovery_point=BATCHES,
        log_start_offset=BATCHES + 1,
    )
    assert (log.log_start_offset, log.log_end_offset) == (0, BATCHES)
