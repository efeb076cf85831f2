"""Three brokers as processes, on one machine: they share a metadata store, or have a ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicView
from floodmark.client.errors import KafkaError
from kit.broker import up_command
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port
from kit.waiting import wait_for
from kit.zookeeper import Ensemble

IDS = (1, 2, 3)


class ProcessCluster:
    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
        zookeeper: str | Mapping[int, str] | None = None,
    ) -> None:
        """`program` runs in place of the `floodmark` command. `zookeeper` is what to connect to,
        for all of them or by broker; without it, they share a folder."""
        self._folder = folder
        self._program = program
        self._settings = dict(settings or {})
        self._zookeeper = zookeeper
        # Where the test has started one.
        self.ensemble: Ensemble | None = None
        self._ports = {broker_id: free_port() for broker_id in IDS}
        self.processes: dict[int, ServerProcess] = {}
        for broker_id in IDS:
            self.start(broker_id)
        self.wait_until_up()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def port(self, broker_id: int) -> int:
        return self._ports[broker_id]

    def start(self, broker_id: int) -> None:
        settings = {
            **self._settings,
            "node.id": str(broker_id),
            **self._store_of(broker_id),
        }
        data_dir = self._folder / f"broker-{broker_id}"
        command = up_command(self._ports[broker_id], data_dir, settings)
        if self._program is not None:
            command[:1] = self._program
        output = self._folder / f"broker-{broker_id}.out"
        self.processes[broker_id] = ServerProcess(command, output)

    def _store_of(self, broker_id: int) -> dict[str, str]:
        if self._zookeeper is None:
            return {"floodmark.cluster.dir": str(self._folder / "cluster")}
        named = self._zookeeper
        return {"zookeeper.connect": named if isinstance(named, str) else named[broker_id]}

    def wait_until_up(self) -> None:
        """Each answers, and every one knows all of them."""
        for broker_id, process in self.processes.items():
            port = self._ports[broker_id]
            process.wait_until(lambda port=port: broker_answers(port), timeout_s=30)
        wait_for(lambda: all(self._knows_all(port) for port in self._ports.values()))

    def _knows_all(self, port: int) -> bool:
        async def known() -> int:
            async with Admin(f"127.0.0.1:{port}") as admin:
                return len((await admin.describe_cluster()).brokers)

        return asyncio.run(known()) == len(IDS)

    def describe(self, topic: str) -> TopicView:
        async def ask() -> TopicView:
            async with Admin(self.bootstrap) as admin:
                (view,) = await admin.describe_topics([topic])
                return view

        return asyncio.run(ask())

    def leaders(self, topic: str) -> dict[int, int]:
        """The port of the leader of each partition."""
        view = self.describe(topic)
        return {index: self._ports[one.leader] for index, one in view.partitions.items()}

    def wait_until_in_sync(self, topic: str) -> None:
        def is_in_sync() -> bool:
            try:
                partitions = self.describe(topic).partitions.values()
            except KafkaError:
                return False
            return all(len(one.in_sync_replicas) == len(IDS) for one in partitions)

        wait_for(is_in_sync, 60)

    def stop(self) -> None:
        for process in self.processes.values():
            process.stop()
