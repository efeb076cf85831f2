"""/healthz and /readyz when something is wrong with the disks."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.observability.health import FULL_BELOW_BYTES, FULL_FOR_MS
from floodmark.storage.errors import DiskFull, LogDirFailure
from floodmark.storage.files import RealFiles
from floodmark.testing.broker_thread import BrokerThread
from floodmark.testing.virtual_clock import VirtualClock
from fuzz_kit.raw_client import RawClient
from kit.plain_requests import produce_request
from kit.scraping import Watcher, watched


class Disk(RealFiles):
    """A disk with as much room as it is told to have."""

    free_bytes = 10 * FULL_BELOW_BYTES

    def space(self, path: Path) -> tuple[int, int]:
        return 100 * FULL_BELOW_BYTES, self.free_bytes


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def floodmark(tmp_path: Path, disk: Disk, clock: VirtualClock) -> Iterator[BrokerThread]:
    folders = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    with BrokerThread(tmp_path, folders, files=disk, clock=clock) as running:
        yield running


@pytest.fixture
def watcher(floodmark: BrokerThread) -> Iterator[Watcher]:
    with watched(floodmark) as watcher:
        yield watcher


def test_a_disk_without_room_is_not_healthy(watcher: Watcher, disk: Disk, tmp_path: Path) -> None:
    assert watcher.ask("/healthz")[0] == 200
    disk.free_bytes = FULL_BELOW_BYTES - 1
    status, body = watcher.ask("/healthz")
    assert (status, body["status"]) == (503, "unhealthy")
    assert body["reasons"] == [
        f"log folder {tmp_path / name} has {FULL_BELOW_BYTES - 1} bytes left" for name in "ab"
    ]
    # Consumers are served, so that nothing is gained by a restart.
    assert watcher.ask("/readyz") == (200, {"status": "serving"})
    disk.free_bytes = FULL_BELOW_BYTES
    assert watcher.ask("/healthz")[0] == 200


def test_a_write_that_found_no_room_is_remembered_for_a_while(
    floodmark: BrokerThread, watcher: Watcher, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room that a quota leaves is not that of the disk."""
    topic = floodmark.create_topic("t")
    replica = floodmark.broker.replicas.find((topic, 0))
    assert replica is not None

    def refuse(*_: object) -> None:
        raise DiskFull("a: t-0: no space left on the disk")

    with monkeypatch.context() as full:
        full.setattr(type(replica.log), "append", refuse)
        with RawClient(floodmark.bootstrap_servers) as client:
            client.ask(produce_request(topic), 9)
    status, body = watcher.ask("/healthz")
    assert (status, body["reasons"]) == (503, ["a: t-0: no space left on the disk"])
    clock.advance(FULL_FOR_MS)
    assert watcher.ask("/healthz")[0] == 200


def test_a_folder_that_is_offline_is_named_with_its_reason(
    floodmark: BrokerThread, watcher: Watcher, tmp_path: Path
) -> None:
    floodmark.create_topic("t", 4)

    async def fail() -> None:
        problem = LogDirFailure(tmp_path / "b", OSError(errno.EIO, "Input/output error").strerror)
        floodmark.broker.partitions.fail_folder_of(problem)

    floodmark.call(fail())
    status, body = watcher.ask("/healthz")
    assert (status, body["status"], body["offline_partitions"]) == (503, "unhealthy", 2)
    (reason,) = body["reasons"]
    assert reason.startswith(f"log folder {tmp_path / 'b'} is offline: ")
    assert "Input/output error" in reason
    samples = watcher.scrape()
    assert samples.of("kafka_log_logmanager_offlinelogdirectorycount") == 1
    offline = "kafka_log_logmanager_logdirectoryoffline"
    assert samples.of(offline, logdirectory=str(tmp_path / "b")) == 1
    assert samples.of(offline, logdirectory=str(tmp_path / "a")) == 0


def test_a_scrape_shows_the_room_on_each_disk(
    floodmark: BrokerThread, watcher: Watcher, disk: Disk, tmp_path: Path
) -> None:
    topic = floodmark.create_topic("t")
    with RawClient(floodmark.bootstrap_servers) as client:
        client.ask(produce_request(topic, 10), 9)
    samples = watcher.scrape()
    folder = {"logdirectory": str(tmp_path / "a")}
    assert samples.of("floodmark_logdir_disk_bytes", **folder) == 100 * FULL_BELOW_BYTES
    assert samples.of("floodmark_logdir_free_bytes", **folder) == disk.free_bytes
    size = samples.of("kafka_log_log_size", topic=topic, partition="0")
    assert sum(value for _, value in samples.all("floodmark_logdir_size_bytes")) == size > 0


def test_a_broker_that_stops_is_not_ready(floodmark: BrokerThread, watcher: Watcher) -> None:
    floodmark.broker.is_serving = False
    try:
        assert watcher.ask("/readyz") == (503, {"status": "not serving"})
        assert watcher.ask("/healthz")[1]["reasons"] == ["the broker does not serve clients"]
    finally:
        floodmark.broker.is_serving = True
