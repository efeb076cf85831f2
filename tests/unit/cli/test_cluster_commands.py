"""`cluster status`, `broker list|stop` and `partition reassign|elect` on three brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floodmark.cli.local_broker import find_local_broker
from floodmark.cli.main import run
from floodmark.cli.reassignment_plans import parse_file, parse_moves, spread
from floodmark.client.cluster.view import PartitionView, TopicPartition, TopicView
from floodmark.storage.files import RealFiles
from kit.thread_cluster import Cluster
from kit.waiting import wait_for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.wait_until_agreed()
    yield cluster
    cluster.close()


class Said:
    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._bootstrap = ",".join(b.bootstrap_servers for b in cluster.brokers.values())
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        self._capsys.readouterr()
        found = run([*arguments, "-b", self._bootstrap])
        said = self._capsys.readouterr()
        assert found == code, said.err
        return said.out + said.err

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def status(self) -> Any:
        """Healthy or not, as scripts learn it."""
        self._capsys.readouterr()
        found = run(["cluster", "status", "--json", "-b", self._bootstrap])
        status = json.loads(self._capsys.readouterr().out)
        assert found == (0 if status["healthy"] else 3)
        return status


@pytest.fixture
def said(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(cluster, capsys)


def describe(said: Said, topic: str) -> list[dict[str, Any]]:
    (described,) = said.json("topic", "describe", topic)
    return described["partitions"]


def test_the_status_of_a_cluster_in_which_nothing_is_missing(said: Said) -> None:
    said("topic", "create", "whole", "-p", "3", "-r", "3")
    wait_for(lambda: said.status()["healthy"])
    status = said.status()
    assert [broker["broker"] for broker in status["brokers"]] == [1, 2, 3]
    assert sum(broker["controller"] for broker in status["brokers"]) == 1
    assert (status["without_leader"], status["under_replicated"]) == ([], [])
    table = said("cluster", "status")
    assert "is healthy" in table
    assert "OUT-OF-SYNC" in table
    assert "no such partitions" in said("topic", "describe", "--under-replicated")
    assert "already has a leader" in said("partition", "elect", "whole:0", "--unclean")
    listed = said.json("broker", "list")
    assert sum(broker["leads"] for broker in listed) >= 3
    assert "ADDRESS" in said("broker", "list")


def test_partitions_are_moved_and_led_by_whom_they_should_be(said: Said) -> None:
    said("topic", "create", "moving", "--replica-assignment", "1:2,2:3")
    moved = said("partition", "reassign", "moving:0=3,2", "--wait")
    assert "partition moving-0 has moved" in moved
    assert describe(said, "moving")[0]["replicas"] == [3, 2]
    assert "no partitions are moving" in said("partition", "reassign", "--list")
    outcome = said.json("partition", "reassign", "--topic", "moving", "--brokers", "1,2", "--wait")
    assert [one["error"] for one in outcome] == [None, None]
    assert {tuple(sorted(p["replicas"])) for p in describe(said, "moving")} == {(1, 2)}
    refused = said("partition", "reassign", "moving:0", "--cancel", code=1)
    assert "the move of partition moving-0 was not cancelled" in refused
    assert "NO_REASSIGNMENT_IN_PROGRESS" in refused
    assert "`floodmark partition reassign --list` shows the moves" in refused
    assert "no partitions are moving" in said("partition", "reassign", "--cancel")
    said("partition", "reassign", "moving:0=2,1", "moving:1=2,1", "--wait")
    said("partition", "elect", "moving")
    wait_for(lambda: {p["leader"] for p in describe(said, "moving")} == {2})
    assert "already has its preferred leader" in said("partition", "elect", "moving:0")


def test_what_is_called_wrongly_says_what_is_missing(said: Said, tmp_path: Path) -> None:
    assert "name what to move" in said("partition", "reassign", code=2)
    assert "must be used together" in said("partition", "reassign", "--topic", "t", code=2)
    assert "may lose records" in said("partition", "elect", "--unclean", code=2)
    assert "topic:partition" in said("partition", "reassign", "moving=1", code=1)
    assert "could not be read" in said("partition", "reassign", "--file", "none.json", code=1)
    assert "is not part of the cluster" in said("broker", "stop", "9", code=1)


def test_a_broker_that_is_gone_is_missed(said: Said, cluster: Cluster) -> None:
    said("topic", "create", "missed", "-p", "3", "-r", "3")
    cluster.brokers[3].stop()
    wait_for(lambda: said.status()["missing_brokers"] == [3])
    status = said("cluster", "status", code=3)
    assert "is not healthy" in status
    assert "not running, but holding replicas: broker 3" in status
    behind = said("topic", "describe", "missed", "--under-replicated")
    assert behind.count("under-replicated") == 3
    cluster.brokers[3].start()
    wait_for(lambda: said.status()["healthy"])


def test_the_process_of_a_broker_is_found_by_its_lock(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("#\nversion=0\ncluster.id=abc\nbroker.id=2\n")
    assert find_local_broker([str(tmp_path)], "abc", 2) is None, "nobody has the lock"
    hold = (
        "import sys; from pathlib import Path; from floodmark.storage.files import RealFiles;"
        "lock = RealFiles().lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert RealFiles().lock(tmp_path / ".lock") is None
        found = find_local_broker([str(tmp_path / "none"), str(tmp_path)], "abc", 2)
        assert found is not None
        assert found.pid == holder.pid
        assert find_local_broker([str(tmp_path)], "abc", 1) is None
        assert find_local_broker([str(tmp_path)], "other", 2) is None
        assert not found.wait(0.1)
        found.terminate()
        assert found.wait(10)


def test_plans_are_read_from_arguments_and_files_of_kafkas_tool() -> None:
    expected = {TopicPartition("a:b", 0): [2, 3]}
    assert parse_moves(["a:b:0=2,3"]) == expected
    text = '{"version":1,"partitions":[{"topic":"a:b","partition":0,"replicas":[2,3]}]}'
    assert parse_file(text) == expected
    for broken in ("a=1", "a:0", "a:x=1", "a:0=x"):
        with pytest.raises(ValueError, match="not"):
            parse_moves([broken])
    with pytest.raises(ValueError, match="not a plan"):
        parse_file("[]")


def test_replicas_that_may_stay_do_when_a_topic_is_spread() -> None:
    import uuid

    partitions = {
        index: PartitionView(index, replicas[0], 0, replicas, replicas)
        for index, replicas in enumerate([(1, 2), (2, 3), (3, 1)])
    }
    topic = TopicView("t", uuid.uuid4(), False, partitions)
    plan = spread(topic, [1, 2, 4])
    assert list(plan.values()) == [[1, 2], [2, 4], [1, 4]]
    with pytest.raises(ValueError, match="as many brokers"):
        spread(topic, [1])
