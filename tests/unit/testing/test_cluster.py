"""The cluster that users get in their tests: brokers that go, stand still, and are cut off."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from floodmark.config.errors import ConfigError
from floodmark.testing import Cluster
from kit.waiting import wait_for

LAG_MS = 1000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"replica.lag.time.max.ms": LAG_MS, "zookeeper.session.timeout.ms": 2000}
    with Cluster(tmp_path_factory.mktemp("cluster"), settings) as running:
        yield running


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """Whole again after each test."""
    yield shared
    for broker in shared.ids:
        shared.resume(broker)
    shared.heal()
    shared.start(*(broker for broker in shared.ids if not shared.is_running(broker)))


def producer_for(cluster: Cluster, timeout_ms: int = 20_000) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "message.timeout.ms": timeout_ms,
            "socket.timeout.ms": 1000,
            "retry.backoff.ms": 10,
            "log_level": 0,
        }
    )


def send(producer: Producer, topic: str) -> KafkaError | None:
    """Sends one record to partition 0 and returns what became of it."""
    outcomes: list[KafkaError | None] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    producer.produce(topic, b"x", partition=0, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    return outcomes[0]


def answers(cluster: Cluster, broker: int) -> bool:
    """Whether the broker answers a client's request for its versions within a second."""
    host, _, port = cluster.address(broker).rpartition(":")
    request = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
    with socket.create_connection((host, int(port)), 1) as connection:
        connection.sendall(request)
        try:
            return bool(connection.recv(1))
        except TimeoutError:
            return False


def test_a_killed_leader_is_replaced_and_comes_back_in_sync(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=3)
    producer = producer_for(cluster)
    assert send(producer, topic) is None
    first = cluster.leader_of(topic, 0)
    cluster.kill(first)
    assert not cluster.is_running(first)
    assert cluster.leader_of(topic, 0) != first
    with pytest.raises(ConnectionRefusedError):
        answers(cluster, first)
    assert send(producer, topic) is None
    address = cluster.address(first)
    cluster.start(first)
    cluster.wait_until_in_sync(topic)
    assert cluster.in_sync_replicas(topic, 0) == {1, 2, 3}
    assert cluster.address(first) == address


def test_a_killed_controller_is_replaced(cluster: Cluster) -> None:
    first = cluster.controller()
    cluster.kill(first)
    assert cluster.controller() != first


def test_a_stopped_broker_ends_in_order(cluster: Cluster) -> None:
    cluster.stop(2)
    assert "stopped cleanly" in cluster.log_file(2).read_text()


def test_a_paused_broker_loses_its_leadership_when_its_session_ends(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    paused = cluster.leader_of(topic)
    cluster.pause(paused)
    with pytest.raises(RuntimeError, match="is paused"):
        cluster.fill_disk(paused)
    wait_for(lambda: cluster.leader_of(topic) != paused)
    cluster.resume(paused)
    cluster.wait_until_in_sync(topic)


def test_a_broker_cut_off_from_clients_is_reached_by_the_others_only(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader_of(topic)
    cluster.cut_off(leader, from_="clients")
    assert not answers(cluster, leader)
    assert cluster.in_sync_replicas(topic) == {1, 2, 3}
    assert send(producer_for(cluster, timeout_ms=1500), topic) is not None
    cluster.heal()
    assert answers(cluster, leader)
    assert send(producer_for(cluster), topic) is None


def test_a_leader_cut_off_from_its_followers_shrinks_the_in_sync_replicas(
    cluster: Cluster,
) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader_of(topic)
    cluster.cut_off(leader, from_="followers")
    producer = producer_for(cluster)
    # A follower that lacks nothing is in sync, however long it has been silent.
    producer.produce(topic, b"x", partition=0)
    wait_for(lambda: cluster.in_sync_replicas(topic) == {leader})
    cluster.heal()
    cluster.wait_until_in_sync(topic)
    assert producer.flush(20) == 0


def test_two_brokers_can_be_cut_off_from_each_other(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader_of(topic)
    # A leader that does not reach the controller cannot take anybody out.
    spared = (leader, cluster.controller())
    follower = next(broker for broker in cluster.ids if broker not in spared)
    cluster.cut_off(leader, from_=follower)
    assert send(producer_for(cluster), topic) is None
    wait_for(lambda: cluster.in_sync_replicas(topic) == {1, 2, 3} - {follower})
    cluster.heal()
    cluster.wait_until_in_sync(topic)


def test_a_broker_cut_off_from_the_store_loses_its_session_and_registers_again(
    cluster: Cluster,
) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader_of(topic)
    cluster.cut_off(leader, from_="store")
    wait_for(lambda: cluster.leader_of(topic) != leader)
    cluster.heal()
    cluster.wait_until_in_sync(topic)


def test_faults_strike_one_broker(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader_of(topic)
    cluster.faults[leader].fail("PRODUCE", "NOT_ENOUGH_REPLICAS", times=2)
    assert send(producer_for(cluster), topic) is None
    assert cluster.faults[leader].struck["PRODUCE"] == 2
    other = next(broker for broker in cluster.ids if broker != leader)
    assert not cluster.faults[other].struck
    with pytest.raises(ValueError, match="NONSENSE"):
        cluster.faults[leader].fail("NONSENSE", "NOT_ENOUGH_REPLICAS")


def test_what_cannot_be_done_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="cut broker 1 off from 'the world'"):
        cluster.cut_off(1, from_="the world")
    with pytest.raises(ValueError, match="cut broker 1 off from 1"):
        cluster.cut_off(1, from_=1)
    with pytest.raises(RuntimeError, match="already running"):
        cluster.start(1)
    with pytest.raises(RuntimeError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic(cluster.create_topic())
    with pytest.raises(ConfigError, match="did you mean"):
        Cluster(settings={"min.insync.replica": 1})


def test_a_broker_that_is_gone_takes_no_orders(cluster: Cluster) -> None:
    cluster.kill(1)
    for order in (
        lambda: cluster.jump_clock(1, 60),
        lambda: cluster.fill_disk(1),
        lambda: cluster.pause(1),
        lambda: cluster.faults[1].drop("FETCH"),
    ):
        with pytest.raises(RuntimeError, match="broker 1 is not running"):
            order()


def test_closing_does_no_harm_twice_or_before_opening(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, brokers=1)
    cluster.close()
    with cluster:
        with pytest.raises(RuntimeError, match="already open"):
            cluster.open()
        cluster.close()
    with cluster:
        assert cluster.is_running(1)


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "broker-1").write_text("a file where a folder should be")
    with pytest.raises(RuntimeError, match="broker 1 has exited"):
        Cluster(tmp_path, brokers=1).open()


async def test_it_serves_asyncio_tests_and_leaves_nothing_behind() -> None:
    async with Cluster(brokers=1) as cluster:
        folder = cluster.data_dir(1)
        pid = cluster.pid(1)
        assert cluster.leader_of(cluster.create_topic()) == 1
    assert not folder.exists()
    assert not is_alive(pid)


def test_no_broker_outlives_a_test_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from floodmark.testing import Cluster\n"
        "cluster = Cluster(sys.argv[1], brokers=1).open()\n"
        "print(cluster.pid(1), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, check=False
    )
    wait_for(lambda: not is_alive(int(done.stdout)))


def is_alive(pid: int) -> bool:
    """A zombie is not: nobody may be there to wait for it."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
