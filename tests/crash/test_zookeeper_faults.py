"""Three brokers on ZooKeeper that lose it: cut off, sessions ended, the whole of it restarted.

Nothing acknowledged is lost, no broker acknowledges in the place of another, everything heals.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crash_kit.at_leaders import check_all
from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.metadata.session_handle import SessionHandleFile
from floodmark.testing import Cluster
from floodmark.zookeeper.client import end_session
from fuzz_kit.raw_client import RawClient
from kit.cluster import port_of
from kit.plain_requests import produce_request
from kit.seeds import seed
from kit.waiting import wait_for
from kit.zookeeper import ZooKeeper

TOPIC = "replicated"
PARTITIONS = 4
SESSION_TIMEOUT_MS = 2000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": "30000",
    "replica.lag.time.max.ms": "3000",
}
SEED = seed()
BUSY_S = 2.0
"""What a machine that does other things as well may add."""


class Faults:
    """A cluster on ZooKeeper, under load."""

    def __init__(self, folder: Path) -> None:
        self.zookeeper = ZooKeeper(folder / "zookeeper")
        self.zookeeper.start()
        connect = {"zookeeper.connect": f"{self.zookeeper.hosts}/kafka"}
        self.cluster = Cluster(folder, SETTINGS | connect).open()
        self.cluster.create_topic(TOPIC, PARTITIONS)
        self.cluster.wait_until_in_sync(TOPIC)
        self.load = Load(self.cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
        self.load.start()
        wait_for(lambda: len(self.load.acknowledged()) > 0)

    def leaders(self) -> dict[int, int]:
        return {index: self.cluster.leader_of(TOPIC, index) for index in range(PARTITIONS)}

    def goes_on(self, partitions: set[int]) -> None:
        begin = len(self.load.acknowledged())
        wait_for(lambda: partitions <= {index for index, _, _ in self.load.acknowledged(begin)})

    def finish(self) -> None:
        """All in sync again, and every acknowledged record there once and in order."""
        self.cluster.wait_until_in_sync(TOPIC)
        self.load.finish()
        assert not self.load.problems
        checker = Checker(TOPIC, PARTITIONS, SEED)
        check_all(self.cluster, checker, self.load)
        assert checker.records > 0

    def close(self) -> None:
        self.load.finish()
        self.cluster.heal()
        self.cluster.close()
        self.zookeeper.stop()


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Faults]:
    faults = Faults(tmp_path)
    yield faults
    faults.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("role", ["controller", "another"])
def test_a_broker_cut_off_from_zookeeper_only_is_replaced_and_comes_back(faults, role):
    cluster, controller = faults.cluster, faults.cluster.controller()
    victim = controller if role == "controller" else next(i for i in cluster.ids if i != controller)
    led = {index for index, leader in faults.leaders().items() if leader == victim}
    cut_off_at = time.monotonic()
    cluster.cut_off(victim, from_="store")
    wait_for(lambda: victim not in faults.leaders().values(), 30)
    # The controller has told it, and so its clients learn who leads.
    faults.goes_on(led)
    took_s = time.monotonic() - cut_off_at
    print(f"the load went on {took_s:.2f} s after the {role} was cut off")
    assert took_s < SESSION_TIMEOUT_MS / 1000 + 1 + BUSY_S
    wait_for(lambda: cluster.controller() != victim, 30)
    assert all(refused_by(port_of(cluster, victim), partition) for partition in led)
    cluster.heal()
    faults.finish()


@pytest.mark.timeout(240)
def test_sessions_that_expire_one_after_the_other_cost_nothing(faults):
    for broker in faults.cluster.ids:
        file = SessionHandleFile(faults.cluster.data_dir(broker))
        handle = file.read()
        assert handle is not None
        asyncio.run(end_session(faults.zookeeper.hosts, handle, 5000))
        wait_for(lambda old=handle, file=file: file.read() not in (old, None))
        faults.cluster.wait_until_in_sync(TOPIC)
    faults.finish()


@pytest.mark.timeout(240)
def test_a_zookeeper_that_restarts_is_waited_for(faults):
    faults.zookeeper.stop()
    acknowledged = len(faults.load.acknowledged())
    # Leaders go on meanwhile: nobody else can be elected.
    wait_for(lambda: len(faults.load.acknowledged()) > acknowledged + 100)
    faults.zookeeper.start()
    wait_for(lambda: is_created(faults.cluster, "another"))
    faults.finish()


def is_created(cluster: Cluster, topic: str) -> bool:
    """Refused if the controller's connection to ZooKeeper takes longer than a session to return."""
    try:
        cluster.create_topic(topic)
    except RuntimeError as problem:
        if "KAFKA_STORAGE_ERROR" not in str(problem):
            raise
        return False
    return True


@pytest.mark.timeout(240)
def test_a_leader_that_stood_still_takes_nothing_before_it_knows_its_session(faults):
    cluster = faults.cluster
    partition, victim = next(iter(faults.leaders().items()))
    with RawClient(cluster.address(victim)) as client, ThreadPoolExecutor(1) as thread:
        cluster.pause(victim)
        # It lies in the socket until the process goes on, which asks nobody but itself.
        request = produce_request(TOPIC, acks=1, partition=partition)
        asking = thread.submit(client.ask, request, 9)
        wait_for(lambda: victim not in faults.leaders().values(), 30)
        cluster.resume(victim)
        answer = asking.result()
    assert answer.responses[0].partition_responses[0].error_code != 0
    faults.finish()


def refused_by(port: int, partition: int) -> bool:
    """Whether a broker does not acknowledge a record for all replicas."""
    with RawClient(f"127.0.0.1:{port}") as client:
        answer = client.ask(produce_request(TOPIC, acks=-1, partition=partition), 9)
    return answer.responses[0].partition_responses[0].error_code != 0
