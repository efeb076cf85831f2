"""Where the metrics come from: the broker's own objects, read when somebody asks.

The hot path pays nothing for metrics: what is shown is what the parts of the broker know anyway.
How many records came in, for example, is how far the logs have grown since `Sources` was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from floodmark.observability.timings import RequestTimings
from floodmark.replication.partition import NO_LEADER

if TYPE_CHECKING:
    from floodmark.clock import Clock
    from floodmark.config.broker_config import BrokerConfig
    from floodmark.metadata.image import MetadataImage
    from floodmark.network.server import NetworkServer
    from floodmark.replication.fetch_sessions import FetchSessions
    from floodmark.replication.replica import Replica
    from floodmark.replication.replica_manager import ReplicaManager

MAX_PARTITION_SERIES = 1_000
"""Partitions with series of their own, however few topics they are of: a scrape must stay short."""


class ObservedDispatch(Protocol):
    requests: dict[int, int]
    timer: Any


class ObservedController(Protocol):
    @property
    def image(self) -> MetadataImage: ...


class ObservedBroker(Protocol):
    """The parts of `broker.broker.Broker` that are looked at here."""

    @property
    def broker_id(self) -> int: ...
    @property
    def is_serving(self) -> bool: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def network(self) -> NetworkServer: ...
    @property
    def dispatch(self) -> ObservedDispatch: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def controller(self) -> ObservedController: ...
    @property
    def fetch_sessions(self) -> FetchSessions: ...


@dataclass(slots=True)
class TopicNumbers:
    """One topic, or all those beyond the cap. Of the latter no partition is shown."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    size_bytes: int = 0
    partitions: list[Replica] = field(default_factory=list)


class Sources:
    def __init__(self, broker: ObservedBroker, timings: RequestTimings) -> None:
        self.broker = broker
        self.timings = timings
        self._at_start: dict[tuple[UUID, int], tuple[int, int]] = {
            (replica.topic_id, replica.key[1]): _grown_to(replica)
            for replica in broker.replicas.replicas
        }

    @property
    def image(self) -> MetadataImage:
        return self.broker.controller.image

    def health(self) -> dict[str, object]:
        """Serving means: sockets are open and the cluster counts this broker as alive."""
        broker = self.broker
        serving = broker.is_serving and self.image.is_live(broker.broker_id)
        return {
            "status": "serving" if serving else "not serving",
            "broker_id": broker.broker_id,
            "partitions": len(broker.replicas),
            "offline_partitions": len(broker.replicas.offline),
        }

    def topics(self, max_topics: int) -> tuple[Mapping[str, TopicNumbers], TopicNumbers]:
        """The numbers of the first topics, and of all others in one: labels must be bounded."""
        named: dict[str, TopicNumbers] = {}
        others = TopicNumbers()
        for name, replicas in self._replicas_by_topic().items():
            shown = sum(len(numbers.partitions) for numbers in named.values())
            has_room = len(named) < max_topics and shown + len(replicas) <= MAX_PARTITION_SERIES
            numbers = named.setdefault(name, TopicNumbers()) if has_room else others
            for replica in replicas:
                messages, size_bytes = self._came_in(replica)
                numbers.messages_in += messages
                numbers.bytes_in += size_bytes
                numbers.bytes_out += replica.bytes_out
                numbers.size_bytes += replica.log.size_bytes
            if has_room:
                numbers.partitions = list(replicas)
        return named, others

    def led_partitions(self) -> list[Replica]:
        return [replica for replica in self.broker.replicas.replicas if replica.core.is_leader]

    def partitions_without_leader(self) -> int:
        return sum(
            partition.leader == NO_LEADER
            for topic in self.image.topics.values()
            for partition in topic.partitions
        )

    def _replicas_by_topic(self) -> Mapping[str, Sequence[Replica]]:
        by_topic: dict[str, list[Replica]] = {}
        for replica in self.broker.replicas.replicas:
            by_topic.setdefault(replica.key[0], []).append(replica)
        return by_topic

    def _came_in(self, replica: Replica) -> tuple[int, int]:
        """Records and bytes."""
        first_offset, first_bytes = self._at_start.get((replica.topic_id, replica.key[1]), (0, 0))
        end_offset, end_bytes = _grown_to(replica)
        # A truncation takes both back.
        return max(0, end_offset - first_offset), max(0, end_bytes - first_bytes)


def _grown_to(replica: Replica) -> tuple[int, int]:
    return replica.log.log_end_offset, replica.log.appended_bytes
