"""Leader epochs: where each begins and ends, and what truncation leaves of them."""

from __future__ import annotations

from pathlib import Path

from floodmark.storage.log.leader_epochs import LeaderEpochs
from floodmark.testing.memory_files import MemoryFiles

DIRECTORY = Path("/logs/t-0")


def epochs_of(*pairs: tuple[int, int]) -> tuple[MemoryFiles, LeaderEpochs]:
    files = MemoryFiles()
    files.mkdir(DIRECTORY)
    epochs = LeaderEpochs(files, DIRECTORY)
    for leader_epoch, start_offset in pairs:
        epochs.assign(leader_epoch, start_offset)
    return files, epochs


def reloaded(files: MemoryFiles) -> LeaderEpochs:
    epochs = LeaderEpochs(files, DIRECTORY)
    assert epochs.load()
    return epochs


def test_the_file_is_kafkas() -> None:
    files, _ = epochs_of((0, 0), (3, 17))
    assert files.read_file(DIRECTORY / "leader-epoch-checkpoint") == b"0\n2\n0 0\n3 17\n"
    assert reloaded(files).end_offset_for(0, 20) == (0, 17)


def test_ends_of_known_unknown_and_skipped_epochs() -> None:
    _, epochs = epochs_of((2, 10), (5, 20), (7, 30))
    assert epochs.end_offset_for(7, 42) == (7, 42)
    assert epochs.end_offset_for(5, 42) == (5, 30)
    assert epochs.end_offset_for(6, 42) == (5, 30)
    assert epochs.end_offset_for(3, 42) == (2, 20)
    assert epochs.end_offset_for(1, 42) == (1, 10)
    assert epochs.end_offset_for(8, 42) == (-1, -1)
    assert epochs.end_offset_for(-1, 42) == (-1, -1)
    assert [epochs.epoch_for(offset) for offset in (9, 10, 29, 30, 99)] == [-1, 2, 5, 7, 7]


def test_an_epoch_without_records_gives_way_to_the_next_at_the_same_offset() -> None:
    files, epochs = epochs_of((1, 0), (2, 5), (3, 5))
    assert epochs.end_offset_for(2, 9) == (1, 5)
    assert reloaded(files).epochs == [1, 3]


def test_truncation_at_the_end_drops_epochs_that_begin_there_or_later() -> None:
    files, epochs = epochs_of((1, 0), (2, 5), (3, 8))
    epochs.truncate_from_end(5)
    assert epochs.epochs == reloaded(files).epochs == [1]
    assert epochs.latest == 1


def test_truncation_at_the_start_keeps_the_epoch_that_spans_it() -> None:
    files, epochs = epochs_of((1, 0), (2, 5), (3, 8))
    epochs.truncate_from_start(6)
    again = reloaded(files)
    assert (again.epochs, again.start_offsets) == ([2, 3], [6, 8])
    epochs.truncate_from_start(8)
    assert reloaded(files).epochs == [3]


def test_an_epoch_seen_again_keeps_its_start() -> None:
    _, epochs = epochs_of((1, 0), (2, 5), (2, 9))
    assert epochs.start_offsets == [0, 5]


def test_a_broken_file_is_not_loaded() -> None:
    files, _ = epochs_of((1, 0))
    file = files.open(DIRECTORY / "leader-epoch-checkpoint")
    for content in (b"", b"1\n0\n", b"0\n2\n1 0\n", b"0\n1\nx y\n", b"\xff\xfe"):
        file.truncate(0)
        file.append(content)
        assert not LeaderEpochs(files, DIRECTORY).load()
