"""Three brokers on ZooKeeper that lose it: cut off, sessions ended, the whole of it restarted.

Nothing acknowledged is lost, no broker acknowledges in the place of another, everything heals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.view import PartitionView
from floodmark.client.errors import KafkaError
from floodmark.metadata.session_handle import SessionHandleFile
from floodmark.zookeeper.client import end_session
from fuzz_kit.raw_client import RawClient
from kit.cluster import IDS, ProcessCluster
from kit.plain_requests import produce_request
from kit.seeds import seed
from kit.tcp_proxy import TcpProxy
from kit.waiting import wait_for
from kit.zookeeper import ZooKeeper

TOPIC = "replicated"
PARTITIONS = 4
SESSION_TIMEOUT_MS = 2000
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "3000",
}
SEED = seed()


class Faults:
    """A cluster under load whose brokers each reach ZooKeeper through a proxy of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.zookeeper = ZooKeeper(folder / "zookeeper")
        self.zookeeper.start()
        self.proxies = {broker_id: TcpProxy(self.zookeeper.port) for broker_id in IDS}
        connect = {one: f"{proxy.address}/kafka" for one, proxy in self.proxies.items()}
        self.cluster = ProcessCluster(folder, SETTINGS, zookeeper=connect)
        asyncio.run(self._create())
        self.cluster.wait_until_in_sync(TOPIC)
        self.load = Load(self.cluster.bootstrap, TOPIC, PARTITIONS, SEED)
        self.load.start()
        wait_for(lambda: len(self.load.acknowledged()) > 0)

    async def _create(self) -> None:
        async with Admin(self.cluster.bootstrap) as admin:
            configs = {"min.insync.replicas": "2"}
            await admin.create_topic(NewTopic(TOPIC, PARTITIONS, len(IDS), configs=configs))

    def controller(self, asked: int) -> int:
        async def ask() -> int:
            async with Admin(f"127.0.0.1:{self.cluster.port(asked)}") as admin:
                return (await admin.describe_cluster()).controller_id

        return asyncio.run(ask())

    def finish(self) -> None:
        """All in sync again, and every acknowledged record there once and in order."""
        wait_for(self.has_healed, 60)
        self.load.finish()
        assert not self.load.problems
        checker = Checker(TOPIC, PARTITIONS, SEED)
        asyncio.run(checker.check_all(self.cluster.leaders(TOPIC), self.load))
        assert checker.records > 0

    def has_healed(self) -> bool:
        """Whether every broker says the same, and it is good."""
        views = [self.partitions(asked) for asked in IDS]
        good = all(
            one.leader in IDS and len(one.in_sync_replicas) == len(IDS)
            for view in views
            for one in view.values()
        )
        return good and all(
            view[index].leader_epoch == one.leader_epoch
            for view in views
            for index, one in views[0].items()
        )

    def partitions(self, asked: int) -> dict[int, PartitionView]:
        """As one broker tells them; nothing when it does not."""

        async def ask() -> dict[int, PartitionView]:
            async with Admin(f"127.0.0.1:{self.cluster.port(asked)}") as admin:
                (view,) = await admin.describe_topics([TOPIC])
                return view.partitions

        try:
            return asyncio.run(ask())
        except KafkaError:
            return {}

    def close(self) -> None:
        self.load.finish()
        for proxy in self.proxies.values():
            proxy.heal()
        self.cluster.stop()
        for proxy in self.proxies.values():
            proxy.close()
        self.zookeeper.stop()


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Faults]:
    faults = Faults(tmp_path)
    yield faults
    faults.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("role", ["controller", "another"])
def test_a_broker_cut_off_from_zookeeper_only_is_replaced_and_comes_back(faults, role):
    controller = faults.controller(1)
    victim = controller if role == "controller" else next(i for i in IDS if i != controller)
    others = [one for one in IDS if one != victim]
    led = [i for i, p in faults.cluster.describe(TOPIC).partitions.items() if p.leader == victim]
    faults.proxies[victim].cut()
    wait_for(lambda: victim not in leaders(faults.partitions(others[0])), 30)
    wait_for(lambda: faults.controller(others[0]) in others, 30)
    # Its clients still reach it, and its followers do not follow it any more.
    assert all(refused_by(faults.cluster.port(victim), partition) for partition in led)
    faults.proxies[victim].heal()
    faults.finish()


@pytest.mark.timeout(240)
def test_sessions_that_expire_one_after_the_other_cost_nothing(faults):
    for broker_id in IDS:
        file = SessionHandleFile(faults.folder / f"broker-{broker_id}")
        handle = file.read()
        assert handle is not None
        asyncio.run(end_session(faults.zookeeper.hosts, handle, 5000))
        wait_for(lambda old=handle, file=file: file.read() not in (old, None))
        wait_for(faults.has_healed, 60)
    faults.finish()


@pytest.mark.timeout(240)
def test_a_zookeeper_that_restarts_is_waited_for(faults):
    faults.zookeeper.stop()
    acknowledged = len(faults.load.acknowledged())
    # Leaders go on meanwhile: nobody else can be elected.
    wait_for(lambda: len(faults.load.acknowledged()) > acknowledged + 100)
    faults.zookeeper.start()
    asyncio.run(create_another(faults.cluster.bootstrap))
    faults.finish()


def leaders(partitions: dict[int, PartitionView]) -> set[int]:
    return {one.leader for one in partitions.values()}


def refused_by(port: int, partition: int) -> bool:
    """Whether a broker does not acknowledge a record for all replicas."""
    with RawClient(f"127.0.0.1:{port}") as client:
        answer = client.ask(produce_request(TOPIC, acks=-1, partition=partition), 9)
    return answer.responses[0].partition_responses[0].error_code != 0


async def create_another(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(NewTopic("another", 1, len(IDS)))
