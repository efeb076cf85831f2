"""What tests of clusters share beside `floodmark.testing.Cluster`."""

from __future__ import annotations

from collections.abc import Mapping

from floodmark.testing import Cluster


def leader_ports(cluster: Cluster, topic: str, partitions: int) -> Mapping[int, int]:
    """The port of the leader of each partition."""
    leaders = {index: cluster.leader_of(topic, index) for index in range(partitions)}
    return {
        index: int(cluster.address(leader).rpartition(":")[2]) for index, leader in leaders.items()
    }
