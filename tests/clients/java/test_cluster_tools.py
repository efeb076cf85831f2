"""Apache Kafka's tools move partitions and elect leaders in a cluster of three."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from floodmark.testing import Cluster
from kit.jars import KAFKA_3, KAFKA_4
from kit.kafka_tools import kafka_tool
from kit.tools import require_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

_TOOLS = "org.apache.kafka.tools."
_TOPIC = _TOOLS + "TopicCommand"
_REASSIGN = _TOOLS + "reassign.ReassignPartitionsCommand"
_ELECT = _TOOLS + "LeaderElectionCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_tool("java", "mvn")
    settings = {"auto.leader.rebalance.enable": False}
    with Cluster(tmp_path_factory.mktemp("cluster"), settings) as cluster:
        yield cluster


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3])
def test_partitions_move_throttled_and_get_their_preferred_leader(
    cluster: Cluster, version: str, tmp_path: Path
) -> None:
    topic = f"moved-{version}"

    def run(tool: str, *arguments: str) -> str:
        at = ("--bootstrap-server", cluster.bootstrap_servers)
        return kafka_tool(tool, *at, *arguments, version=version)

    run(_TOPIC, "--create", "--topic", topic, "--replica-assignment", "1:2")
    plan = tmp_path / "plan.json"
    move = {"topic": topic, "partition": 0, "replicas": [3, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    file = ("--reassignment-json-file", str(plan))
    begun = run(_REASSIGN, *file, "--execute", "--throttle", "50000000")
    assert f"Successfully started partition reassignment for {topic}-0" in begun
    wait_for(lambda: "No partition reassignments found." in run(_REASSIGN, "--list"), 60)
    verified = run(_REASSIGN, *file, "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "Clearing broker-level throttles" in verified
    described = run(_TOPIC, "--describe", "--topic", topic)
    assert "Replicas: 3,2" in described
    assert not run(_TOPIC, "--describe", "--topic", topic, "--under-replicated-partitions").strip()

    move["replicas"] = [2, 3]
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    run(_REASSIGN, *file, "--execute")
    run(_ELECT, "--election-type", "preferred", "--topic", topic, "--partition", "0")
    wait_for(lambda: cluster.leader_of(topic) == 2)
    cancelled = run(_REASSIGN, *file, "--cancel")
    assert "None of the specified partition reassignments are active." in cancelled
