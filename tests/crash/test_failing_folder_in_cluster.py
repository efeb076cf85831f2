"""One of the two log folders of a broker fails, in a cluster of three under load, on either store.

The partitions that it led in there are led by others within two seconds, producers with acks=all go
on, and everybody knows which replicas are offline. After a restart with a sound disk the broker has
all of its replicas again.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash_kit.at_leaders import check_all
from crash_kit.checker import Checker
from crash_kit.failing_disk import FailingDisk
from crash_kit.load import Load
from floodmark.testing import Cluster
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from fuzz_kit.raw_client import RawClient
from kit.seeds import seed
from kit.waiting import wait_for
from kit.zookeeper import ZooKeeper

TOPIC = "replicated"
PARTITIONS = 6
SEED = seed()
SOUND, FAILING = "sound", "failing"
FAILOVER_S = 2.0
ENOUGH = 200


class TwoFolderCluster(Cluster):
    """Each broker has two log folders."""

    def _properties(self, broker: int) -> dict[str, str]:
        folders = (str(self.data_dir(broker) / name) for name in (SOUND, FAILING))
        return {**super()._properties(broker), "log.dirs": ",".join(folders)}

    def partitions_in(self, broker: int, folder: str) -> set[int]:
        found = (self.data_dir(broker) / folder).glob(f"{TOPIC}-*")
        return {int(one.name.rpartition("-")[2]) for one in found}


@pytest.fixture(params=["folder", "zookeeper"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    if request.param == "folder":
        yield {}
    else:
        with ZooKeeper(tmp_path / "zookeeper") as server:
            yield {"zookeeper.connect": f"{server.hosts}/kafka"}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("role", ["controller", "another"])
def test_leaders_on_a_failed_folder_move_and_the_load_goes_on(
    tmp_path: Path, store: dict[str, str], role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path)
    for name, value in disk.environment.items():
        monkeypatch.setenv(name, value)
    with TwoFolderCluster(tmp_path, store) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        controller = cluster.controller()
        victim = controller if role == "controller" else controller % len(cluster.ids) + 1
        lost = cluster.partitions_in(victim, FAILING)
        led = {index for index in lost if cluster.leader_of(TOPIC, index) == victim}
        assert lost != set(range(PARTITIONS))
        load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
        load.start()
        try:
            goes_on(load, set(range(PARTITIONS)))
            disk.fail(f"write {errno.EIO} 100 /broker-{victim}/{FAILING}/{TOPIC}-")
            wait_for(lambda: f"{FAILING} is offline" in cluster.log_file(victim).read_text())
            failed_at = time.monotonic()
            wait_for(lambda: not any(cluster.leader_of(TOPIC, i) == victim for i in led))
            took_s = time.monotonic() - failed_at
            print(f"{len(led)} leaders of {len(lost)} replicas moved within {took_s:.2f} s")
            assert took_s < FAILOVER_S
            goes_on(load, set(range(PARTITIONS)))
            check_what_is_known(cluster, victim, lost)
            disk.heal()
            cluster.stop(victim)
            cluster.start(victim)
            cluster.wait_until_in_sync(TOPIC)
            wait_for(lambda: not offline_replicas(cluster, cluster.controller()))
        finally:
            load.finish()
        assert not load.problems
        checker = Checker(TOPIC, PARTITIONS, SEED)
        check_all(cluster, checker, load)


def goes_on(load: Load, partitions: set[int]) -> None:
    """In each of the partitions."""
    begin = len(load.acknowledged())
    wait_for(lambda: {index for index, _, _ in load.acknowledged(begin)} == partitions)
    wait_for(lambda: len(load.acknowledged()) > begin + ENOUGH)


def check_what_is_known(cluster: TwoFolderCluster, victim: int, lost: set[int]) -> None:
    """On every broker, the controller included."""
    for broker in cluster.ids:
        wait_for(
            lambda broker=broker: (
                offline_replicas(cluster, broker) == {(index, victim) for index in lost}
            )
        )
    for index in range(PARTITIONS):
        assert (victim in cluster.in_sync_replicas(TOPIC, index)) == (index not in lost)


def offline_replicas(cluster: Cluster, broker: int) -> set[tuple[int, int]]:
    """As the metadata of one broker names them: partition and replica."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    with RawClient(cluster.address(broker)) as client:
        (topic,) = client.ask(request, 9).topics
    return {(p.partition_index, r) for p in topic.partitions for r in p.offline_replicas}
