"""Files that may not be read, are folders, or are lost: it costs the partition that they belong to
and no other, and the log says so."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from floodmark.clock import SystemClock
from floodmark.records.record import Record, encode_batch
from floodmark.replication.fetch_reads import FetchLimits
from floodmark.replication.fetch_sessions import FetchTarget
from floodmark.replication.outcomes import ACKS_ALL, Isolation
from floodmark.storage.files import RealFile, RealFiles
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from kit.flushed import NEVER_FLUSHED

FIRST_SEGMENT = "00000000000000000000"


class Refusing(RealFiles):
    """Some files cannot be opened, for a reason that does not go by itself, or for one that
    does."""

    problem: int | None = None
    suffix = ""

    def _check(self, path: Path) -> None:
        if self.problem is not None and path.name.endswith(self.suffix):
            raise OSError(self.problem, "refused", str(path))

    def open(self, path: Path, *, create: bool = True) -> RealFile:
        self._check(path)
        return super().open(path, create=create)

    def read_file(self, path: Path) -> bytes:
        self._check(path)
        return super().read_file(path)


async def append(floodmark: BrokerThread, topic: str, timestamp_ms: int = 1) -> ErrorCode:
    batch = bytes(encode_batch([Record(0, timestamp_ms, b"k", b"v", [])]))
    return floodmark.broker.replicas.append((topic, 0), batch, ACKS_ALL).error_code


async def roll(floodmark: BrokerThread, topic: str) -> None:
    replica = floodmark.broker.replicas.find((topic, 0))
    assert replica is not None
    replica.log.roll(floodmark.broker.clock.now_ms())


async def fetch(floodmark: BrokerThread, topic: str) -> ErrorCode:
    limits = FetchLimits(1, 1000, 0, Isolation.READ_UNCOMMITTED)
    targets = [((topic, 0), FetchTarget(topic, 0, 0, 1000))]
    (outcome,) = floodmark.broker.replicas.fetch(targets, limits)
    return outcome.error_code


def filled(folder: Path, timestamp_ms: int = 1) -> None:
    """Two topics of two segments with a record each."""
    with BrokerThread(folder) as floodmark:
        for topic in ("t", "u"):
            floodmark.create_topic(topic)
            floodmark.call(append(floodmark, topic, timestamp_ms))
            floodmark.call(roll(floodmark, topic))
            floodmark.call(append(floodmark, topic, timestamp_ms))


def served(floodmark: BrokerThread) -> set[str]:
    return {replica.key[0] for replica in floodmark.broker.replicas.replicas}


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_folder_in_the_place_of_a_small_file_does_not_keep_the_broker_from_starting(
    tmp_path: Path, name: str
) -> None:
    filled(tmp_path)
    (tmp_path / "t-0" / name).unlink()
    (tmp_path / "t-0" / name).mkdir()
    with BrokerThread(tmp_path) as floodmark:
        assert floodmark.broker.replicas.offline == {("t", 0)}
        assert served(floodmark) == {"u"}


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", ".timeindex"])
def test_a_file_that_may_not_be_read_costs_its_partition_and_no_other(
    tmp_path: Path, name: str
) -> None:
    filled(tmp_path)

    class OnlyOfT(Refusing):
        def _check(self, path: Path) -> None:
            if path.parent.name == "t-0":
                super()._check(path)

    files = OnlyOfT()
    files.problem, files.suffix = errno.EACCES, name
    with BrokerThread(tmp_path, files=files) as floodmark:
        assert "u" in served(floodmark)
        assert floodmark.call(append(floodmark, "u")) is ErrorCode.NONE


def test_an_index_that_cannot_be_read_later_costs_its_partition_and_no_other(
    tmp_path: Path,
) -> None:
    filled(tmp_path)
    index = tmp_path / "t-0" / f"{FIRST_SEGMENT}.index"
    index.unlink(missing_ok=True)
    index.mkdir()
    with BrokerThread(tmp_path) as floodmark:
        assert floodmark.call(fetch(floodmark, "t")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert floodmark.broker.replicas.offline == {("t", 0)}
        assert floodmark.call(fetch(floodmark, "u")) is ErrorCode.NONE
        assert floodmark.call(append(floodmark, "u")) is ErrorCode.NONE
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    shutil.rmtree(index)
    with BrokerThread(tmp_path) as floodmark:
        assert floodmark.call(fetch(floodmark, "t")) is ErrorCode.NONE


@pytest.mark.parametrize("names", [".log", "*"], ids=["log", "all"])
def test_an_old_segment_that_somebody_has_removed_costs_its_readers_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: str
) -> None:
    filled(tmp_path)
    with BrokerThread(tmp_path) as floodmark:
        for path in (tmp_path / "t-0").glob(FIRST_SEGMENT + names):
            path.unlink()
        assert floodmark.call(fetch(floodmark, "t")) is ErrorCode.CORRUPT_MESSAGE
        assert floodmark.call(append(floodmark, "t")) is ErrorCode.NONE
        assert not (tmp_path / "t-0" / f"{FIRST_SEGMENT}.log").exists()
    assert f"{FIRST_SEGMENT}.log is gone" in caplog.text


@pytest.mark.parametrize("names", [".log", "*"], ids=["log", "all"])
def test_retention_takes_a_segment_that_somebody_has_removed(tmp_path: Path, names: str) -> None:
    filled(tmp_path)
    with BrokerThread(tmp_path) as floodmark:
        for path in (tmp_path / "t-0").glob(FIRST_SEGMENT + names):
            path.unlink()
        replica = floodmark.broker.replicas.find(("t", 0))
        assert replica is not None
        replica.log.config = replace(replica.log.config, retention_bytes=1)
        floodmark.call(floodmark.broker._maintenance.retain())
        assert replica.log.segments[0].base_offset > 0


def test_retention_lets_a_folder_be_that_was_moved_away_for_a_moment(tmp_path: Path) -> None:
    filled(tmp_path, timestamp_ms=SystemClock().now_ms())
    with BrokerThread(tmp_path) as floodmark:
        replica = floodmark.broker.replicas.find(("t", 0))
        assert replica is not None
        (tmp_path / "t-0").rename(tmp_path / "aside")
        floodmark.call(floodmark.broker._maintenance.retain())
        (tmp_path / "aside").rename(tmp_path / "t-0")
        assert replica.log.segments[0].base_offset == replica.log.log_start_offset == 0


def test_a_sync_in_a_removed_folder_costs_its_partition_and_no_other(tmp_path: Path) -> None:
    filled(tmp_path)
    with BrokerThread(tmp_path, NEVER_FLUSHED) as floodmark:
        for topic in ("t", "u"):
            assert floodmark.call(append(floodmark, topic)) is ErrorCode.NONE
            floodmark.call(roll(floodmark, topic))
        shutil.rmtree(tmp_path / "t-0")
        floodmark.call(floodmark.broker._maintenance.flush())
        assert served(floodmark) == {"u"}
        assert floodmark.call(append(floodmark, "u")) is ErrorCode.NONE


def test_a_folder_that_somebody_has_removed_costs_its_partition_and_no_other(
    tmp_path: Path,
) -> None:
    with BrokerThread(tmp_path) as floodmark:
        for topic in ("t", "u"):
            floodmark.create_topic(topic)
        shutil.rmtree(tmp_path / "t-0")
        assert floodmark.call(append(floodmark, "t")) is ErrorCode.KAFKA_STORAGE_ERROR
        assert floodmark.broker.replicas.offline == {("t", 0)}
        assert floodmark.call(append(floodmark, "u")) is ErrorCode.NONE


def test_partitions_that_are_tried_again_leave_no_folders_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Refusing()
    with BrokerThread(tmp_path, files=files) as floodmark:
        files.problem, files.suffix = errno.EMFILE, ".log"
        floodmark.create_topic("t")
        broker = floodmark.broker
        for _ in range(3):
            floodmark.call(broker.partitions.reopen(broker.metadata.image))
        assert [path.name for path in tmp_path.glob("t-0*")] == ["t-0"]
        files.problem = None
        floodmark.call(broker.partitions.reopen(broker.metadata.image))
        assert floodmark.call(append(floodmark, "t")) is ErrorCode.NONE
    assert "deleted topic" not in caplog.text


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        ("t-0", "t-0 is missing; it held the offsets up to 1"),
        (f"t-0/{FIRST_SEGMENT}.log", "t-0 ends at offset 0, but had reached 1"),
    ],
)
def test_what_was_lost_before_it_was_synced_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: str, text: str
) -> None:
    killed = tmp_path / "killed"
    with BrokerThread(tmp_path / "served") as floodmark:
        floodmark.create_topic("t")
        floodmark.call(append(floodmark, "t"))
        broker = floodmark.broker
        broker.logs.checkpoint_high_watermarks({("t", 0): 1})
        shutil.copytree(tmp_path / "served", killed)
    if (killed / lost).is_dir():
        shutil.rmtree(killed / lost)
    else:
        (killed / lost).unlink()
    with BrokerThread(killed) as floodmark:
        assert floodmark.call(append(floodmark, "t")) is ErrorCode.NONE
    assert text in caplog.text
