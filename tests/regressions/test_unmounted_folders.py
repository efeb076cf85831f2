"""A disk that is not mounted leaves an empty folder: its partitions must not start over."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from floodmark.config.errors import ConfigError
from floodmark.metadata.embedded import FILE_NAME
from floodmark.storage.errors import StorageError
from floodmark.testing.broker_thread import BrokerThread

PARTITIONS = 4


def settings(*folders: Path) -> dict[str, str]:
    return {"log.dirs": ",".join(map(str, folders))}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the partitions of a topic in both."""
    first, second = tmp_path / "a", tmp_path / "b"
    with BrokerThread(tmp_path, settings(first, second)) as floodmark:
        floodmark.create_topic("t", partitions=PARTITIONS)
    return first, second


def partitions_in(folder: Path) -> set[tuple[str, int]]:
    return {("t", int(path.name.removeprefix("t-"))) for path in folder.glob("t-?")}


def test_partitions_stay_offline_until_their_disk_is_mounted(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    first, second = folders
    lost = partitions_in(second)
    assert lost
    disk = second.rename(tmp_path / "disk")
    for _ in range(2):
        second.mkdir(exist_ok=True)
        with BrokerThread(tmp_path, settings(first, second)) as floodmark:
            assert floodmark.broker.replicas.offline == lost
        assert not partitions_in(second)
    shutil.rmtree(second)
    disk.rename(second)
    with BrokerThread(tmp_path, settings(first, second)) as floodmark:
        assert not floodmark.broker.replicas.offline
        assert len(floodmark.broker.replicas.replicas) == PARTITIONS


def test_partitions_of_a_disk_that_is_lost_for_good_begin_anew_without_it(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    first, second = folders
    shutil.rmtree(second)
    with BrokerThread(tmp_path, settings(first)) as floodmark:
        assert len(floodmark.broker.replicas.replicas) == PARTITIONS
    with BrokerThread(tmp_path, settings(first, second)) as floodmark:
        assert not floodmark.broker.replicas.offline
        assert not floodmark.broker.logs.offline_dirs
    assert (second / "meta.properties").exists()


def test_without_the_folder_of_the_metadata_nothing_is_begun(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    first, second = folders
    disk = first.rename(tmp_path / "disk")
    with pytest.raises(ConfigError, match="the metadata is missing"):
        BrokerThread(tmp_path, settings(first, second)).start()
    shutil.rmtree(first)
    first.write_text("not a folder")
    with pytest.raises(StorageError, match="holds the metadata"):
        BrokerThread(tmp_path, settings(first, second)).start()
    first.unlink()
    disk.rename(first)
    with BrokerThread(tmp_path, settings(first, second)) as floodmark:
        assert len(floodmark.broker.replicas.replicas) == PARTITIONS


def test_the_metadata_is_found_in_whatever_order_the_folders_are_named(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    first, second = folders
    with BrokerThread(tmp_path, settings(second, first)) as floodmark:
        assert len(floodmark.broker.replicas.replicas) == PARTITIONS
    assert not (second / FILE_NAME).exists()


def test_a_metadata_disk_that_is_not_the_first_is_missed_as_well(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with BrokerThread(tmp_path, settings(old)) as floodmark:
        floodmark.create_topic("t", partitions=PARTITIONS)
    with BrokerThread(tmp_path, settings(new, old)):
        pass
    disk = old.rename(tmp_path / "disk")
    old.mkdir()
    with pytest.raises(ConfigError, match="the metadata is missing"):
        BrokerThread(tmp_path, settings(new, old)).start()
    assert not (old / "meta.properties").exists()
    shutil.rmtree(old)
    disk.rename(old)
    with BrokerThread(tmp_path, settings(new, old)) as floodmark:
        assert len(floodmark.broker.replicas.replicas) == PARTITIONS


def test_a_disk_that_cannot_be_read_costs_only_its_own_folder(
    tmp_path: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = folders
    exists = Path.exists

    def broken(path: Path) -> bool:
        if path.is_relative_to(second):
            raise OSError(errno.EIO, "input/output error")
        return exists(path)

    monkeypatch.setattr(Path, "exists", broken)
    with BrokerThread(tmp_path, settings(second, first)) as floodmark:
        assert list(floodmark.broker.logs.offline_dirs) == [second]
        assert len(floodmark.broker.replicas.replicas) == len(partitions_in(first))


def test_a_folder_with_partitions_that_has_lost_its_name_gets_it_again(
    tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    first, second = folders
    (second / "meta.properties").unlink()
    missing = min(partitions_in(first))
    shutil.rmtree(first / f"t-{missing[1]}")
    with BrokerThread(tmp_path, settings(first, second)) as floodmark:
        assert not floodmark.broker.logs.offline_dirs
    assert (second / "meta.properties").exists()
