"""Three local broker processes, for tests that take one of them away.

PUBLIC as `floodmark.testing.Cluster` and as the `floodmark_cluster` fixture.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from floodmark.child_python import child_python
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.errors import KafkaError
from floodmark.clock import SystemClock
from floodmark.testing.broker_thread import (
    TEST_SETTINGS,
    checked_config,
    fresh_topic_name,
    settings_from_environment,
)
from floodmark.testing.cluster.loop_thread import LoopThread
from floodmark.testing.cluster.network import BROKERS, CLIENTS, ClusterNetwork, From
from floodmark.testing.cluster.process import BrokerProcess
from floodmark.testing.cluster.questions import (
    agreed_controller,
    ask_all,
    newest,
    partitions_of,
)
from floodmark.testing.cluster.remote_faults import RemoteFaults
from floodmark.testing.values import SettingValue, as_texts
from floodmark.testing.with_block import WithBlock
from floodmark.wire.messages.metadata import MetadataResponse

T = TypeVar("T")

WAIT_S = 60.0
_POLL_S = 0.02

CLUSTER_SETTINGS: Mapping[str, str] = {
    **TEST_SETTINGS,
    "listeners": f"{CLIENTS}://127.0.0.1:0,{BROKERS}://127.0.0.1:0",
    "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{BROKERS}:PLAINTEXT",
    "inter.broker.listener.name": BROKERS,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "6000",
}
"""A replica on each broker and min.insync.replicas=2, so the cluster survives losing one."""


class Cluster(WithBlock):
    """Three brokers for tests, each a process of its own.

        with Cluster() as cluster:
            topic = cluster.create_topic(partitions=3)
            cluster.kill(cluster.leader_of(topic, 0))
            run_my_code(cluster.bootstrap_servers, topic)

    Use it with `with`, with `async with`, or call `open` and finally `close`. The brokers have ids
    1, 2 and 3 and keep their ports and data across restarts.

    - `data_dir`: the folder for data and logs. Default: a temporary folder that `close` removes.
    - `settings`: Kafka's broker settings, for all brokers. Unknown names raise a ConfigError. With
      `zookeeper.connect` the brokers use that ZooKeeper; without it they share a folder.
    - `brokers`: the number of brokers.
    """

    program: Sequence[str] = tuple(child_python("floodmark.testing.cluster.child"))
    """The command that runs a broker, followed by its settings as JSON."""

    def __init__(
        self,
        data_dir: Path | str | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        brokers: int = 3,
    ) -> None:
        self.ids = tuple(range(1, brokers + 1))
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._settings = {**CLUSTER_SETTINGS, **settings_from_environment(), **as_texts(settings)}
        checked_config(self._settings)
        self._processes: dict[int, BrokerProcess] = {}
        self._ports: dict[int, dict[str, int]] = {}
        self._is_open = False
        self.faults: dict[int, RemoteFaults] = {}
        """Faults per broker: `cluster.faults[1].fail("PRODUCE", "NOT_ENOUGH_REPLICAS")`."""

    # -- lifecycle ------------------------------------------------------------------------------

    def open(self) -> Self:
        """Returns once all brokers serve requests and know each other."""
        if self._is_open:
            raise RuntimeError("the cluster is already open")
        self._folder = self._given_dir or Path(tempfile.mkdtemp(prefix="floodmark-cluster-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        self._loop = LoopThread()
        self._network = ClusterNetwork(self.ids, self._settings.get("zookeeper.connect", ""))
        self._is_open = True
        try:
            self._call(self._network.open_stores())
            self.start(*self.ids)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stops all brokers and removes their data, unless `data_dir` was given."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self.stop(*self._processes)
        finally:
            for process in self._processes.values():
                process.kill()
            self._call(self._network.close())
            self._loop.close()
            if self._given_dir is None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _enter(self) -> None:
        self.open()

    # -- for clients ----------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for clients. They never change."""
        return ",".join(self.address(broker) for broker in self.ids)

    def address(self, broker: int) -> str:
        """The address of one broker."""
        return f"127.0.0.1:{self._network.port(broker)}"

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        configs: Mapping[str, SettingValue] | None = None,
        replication_factor: int | None = None,
    ) -> str:
        """Creates a topic with a replica on each broker and returns its name.

        Waits until every running broker knows the leaders.
        """
        name = fresh_topic_name() if name is None else name
        replicas = min(3, len(self.ids)) if replication_factor is None else replication_factor
        self._call(self._create(NewTopic(name, partitions, replicas, configs=as_texts(configs))))
        self._wait(lambda: self._has_leaders(name, partitions), f"topic {name} has no leaders")
        return name

    # -- cluster state --------------------------------------------------------------------------

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader of a partition. Waits for the next one if that broker is not running."""
        found = self._wait(
            lambda: self._running_leader(topic, partition), f"{topic}-{partition} has no leader"
        )
        assert found is not None
        return found

    def in_sync_replicas(self, topic: str, partition: int = 0) -> set[int]:
        """The brokers that have all committed records of a partition."""
        found = newest(self._ask(topic), partition)
        return set() if found is None else set(found.isr_nodes)

    def wait_until_in_sync(self, topic: str) -> None:
        """Waits until every running broker reports all replicas of a topic as in sync."""
        self._wait(lambda: self._is_in_sync(topic), f"{topic} is not in sync")

    def controller(self) -> int:
        """The current controller. If that broker is not running, waits for the next one."""
        found = self._wait(self._running_controller, "there is no controller")
        assert found is not None
        return found

    def is_running(self, broker: int) -> bool:
        """Whether the process exists. A paused process does."""
        process = self._processes.get(broker)
        return process is not None and process.is_running

    def pid(self, broker: int) -> int:
        """The process id of a broker."""
        return self._processes[broker].pid

    def log_file(self, broker: int) -> Path:
        """The broker's log output, across all restarts."""
        return self._folder / f"broker-{broker}.log"

    def data_dir(self, broker: int) -> Path:
        """A broker's log folder."""
        return self._folder / f"broker-{broker}"

    # -- disturbing brokers ---------------------------------------------------------------------

    def kill(self, *brokers: int) -> None:
        """Sends SIGKILL: the process is gone and its connections are reset."""
        # First, because a client must not find an open port without a broker behind it.
        self._call(self._network.refuse(brokers))
        for broker in brokers:
            self._processes[broker].kill()
        self._call(self._network.shut(brokers))

    def stop(self, *brokers: int) -> None:
        """Stops brokers cleanly with SIGTERM. Returns once they have exited."""
        running = [broker for broker in brokers if self.is_running(broker)]
        for broker in running:
            self._processes[broker].terminate()
        for broker in running:
            self._processes[broker].wait()
        self._call(self._network.shut(running))

    def start(self, *brokers: int) -> None:
        """Starts stopped brokers with their data.

        Returns once they serve requests and all running brokers know them.
        """
        for broker in brokers:
            if self.is_running(broker):
                raise RuntimeError(f"broker {broker} is already running")
            if broker in self._processes:
                # It may have exited by itself.
                self.kill(broker)
            self._processes[broker] = process = BrokerProcess(
                broker, self.program, self._properties(broker), self.log_file(broker)
            )
            self.faults[broker] = RemoteFaults(process)
        for broker in brokers:
            self._ports[broker] = self._processes[broker].wait_until_bound()
            self._call(self._network.open(broker, self._ports[broker]))
        for broker in brokers:
            self._processes[broker].wait_until_ready()
        self.wait_until_complete(*brokers)

    def wait_until_complete(self, *brokers: int) -> None:
        """Waits until every running broker serves requests and knows these brokers.

        The default is all running brokers.
        """
        self._wait(lambda: self._know(brokers or self._awake()), "not all brokers are available")

    def pause(self, broker: int) -> None:
        """Sends SIGSTOP, which the process cannot notice.

        Its session expires after `zookeeper.session.timeout.ms`.
        """
        self._processes[broker].pause()

    def resume(self, broker: int) -> None:
        """Continues a paused broker."""
        self._processes[broker].resume()

    def cut_off(self, broker: int, *, from_: From) -> None:
        """Cuts the network between a broker and its peers until `heal`.

        Connections stay open, but no data passes.

        - `from_="clients"`: all clients
        - `from_="brokers"`: the other brokers, in both directions
        - `from_="followers"`: requests from the other brokers to this one, but not the reverse
        - `from_=2` or `from_=[2, 3]`: these brokers, in both directions
        - `from_="store"`: the metadata store; the broker's session expires after its timeout
        """
        self._call(self._network.cut(broker, from_))
        if from_ == "store":
            self._processes[broker].order("cut_store", True)

    def heal(self) -> None:
        """Undoes every `cut_off`. Data sent in the meantime arrives now."""
        self._call(self._network.heal())
        for process in self._processes.values():
            if process.is_running and not process.is_paused:
                process.order("cut_store", False)

    def jump_clock(self, broker: int, seconds: float) -> None:
        """Moves one broker's wall clock forward, or back if negative."""
        self._processes[broker].order("jump_clock", int(seconds * 1000))

    def fill_disk(self, broker: int, is_full: bool = True) -> None:
        """Makes one broker's disk full until `fill_disk(broker, False)`."""
        self._processes[broker].order("fill_disk", is_full)

    # -- inside ---------------------------------------------------------------------------------

    def _properties(self, broker: int) -> dict[str, str]:
        return {
            **self._settings,
            "node.id": str(broker),
            "log.dirs": str(self.data_dir(broker)),
            "advertised.listeners": self._network.advertised(broker),
            **self._store(broker),
        }

    def _store(self, broker: int) -> dict[str, str]:
        if "zookeeper.connect" in self._settings:
            return {"zookeeper.connect": self._network.zookeeper(broker)}
        return {"floodmark.cluster.dir": str(self._folder / "cluster")}

    async def _create(self, topic: NewTopic) -> None:
        async with Admin(self.bootstrap_servers) as admin:
            try:
                await admin.create_topic(topic)
            except KafkaError as problem:
                raise RuntimeError(f"topic {topic.name} was not created: {problem}") from problem

    def _awake(self) -> list[int]:
        return [
            broker
            for broker, process in self._processes.items()
            if process.is_running and not process.is_paused and broker in self._ports
        ]

    def _ask(self, topic: str | None = None) -> dict[int, MetadataResponse]:
        ports = {broker: self._ports[broker][CLIENTS] for broker in self._awake()}
        return self._call(ask_all(ports, topic))

    def _know(self, brokers: Iterable[int]) -> bool:
        """Whether every running broker knows these."""
        answers = self._ask()
        return len(answers) == len(self._awake()) and all(
            set(brokers) <= {one.node_id for one in answer.brokers} for answer in answers.values()
        )

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        found = [partitions_of(answer) for answer in self._ask(topic).values()]
        return all(len(known) == partitions for known in found) and all(
            one.leader_id >= 0 for known in found for one in known
        )

    def _is_in_sync(self, topic: str) -> bool:
        found = [partitions_of(answer) for answer in self._ask(topic).values()]
        return all(found) and all(
            one.leader_id >= 0 and set(one.isr_nodes) == set(one.replica_nodes)
            for known in found
            for one in known
        )

    def _running_leader(self, topic: str, partition: int) -> int | None:
        found = newest(self._ask(topic), partition)
        return found.leader_id if found is not None and self.is_running(found.leader_id) else None

    def _running_controller(self) -> int | None:
        found = agreed_controller(self._ask().values())
        return found if self.is_running(found) else None

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.call(work)

    def _wait(self, wanted: Callable[[], T], problem: str) -> T:
        """Waits until the result is neither None nor False."""
        clock = SystemClock()
        deadline_ms = clock.monotonic_ms() + WAIT_S * 1000
        while (found := wanted()) is None or found is False:
            if clock.monotonic_ms() > deadline_ms:
                raise TimeoutError(f"{problem} after {WAIT_S:.0f} s")
            threading.Event().wait(_POLL_S)
        return found
