"""What tests of clusters share beside `floodmark.testing.Cluster`."""

from __future__ import annotations

from collections.abc import Mapping

from floodmark.testing import Cluster


def port_of(cluster: Cluster, broker: int) -> int:
    return int(cluster.address(broker).rpartition(":")[2])


def leader_ports(cluster: Cluster, topic: str, partitions: int) -> Mapping[int, int]:
    """The port of the leader of each partition."""
    return {index: port_of(cluster, cluster.leader_of(topic, index)) for index in range(partitions)}
