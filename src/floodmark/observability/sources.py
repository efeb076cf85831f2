"""The parts of the broker that metrics read, and the state between two scrapes.

Metrics cost the hot path almost nothing: they show what the broker's parts know anyway. For
example, the number of received records is how far the logs have grown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from floodmark.observability.timings import RequestTimings
from floodmark.observability.traffic import TrafficMeter

if TYPE_CHECKING:
    from floodmark.clock import Clock
    from floodmark.config.broker_config import BrokerConfig
    from floodmark.coordinators.groups.offsets import Topics
    from floodmark.metadata.cache import MetadataCache
    from floodmark.metadata.image import MetadataImage
    from floodmark.network.server import NetworkServer
    from floodmark.replication.fetch_sessions import FetchSessions
    from floodmark.replication.replica_manager import ReplicaManager
    from floodmark.storage.log_manager import LogManager


class ObservedFailures(Protocol):
    counts: dict[tuple[int, int], int]


class ObservedDispatch(Protocol):
    sampled: Mapping[int, int]
    timer: Any

    @property
    def requests(self) -> Mapping[int, int]: ...
    @property
    def failures(self) -> ObservedFailures: ...


class ObservedGroups(Protocol):
    def committed(self) -> list[tuple[str, int, Topics]]:
        """Yields each group with its number of members and its offsets, which are not copied."""


class ObservedCoordination(Protocol):
    @property
    def groups_if_any(self) -> ObservedGroups | None: ...


class MeasuredQuota(Protocol):
    @property
    def quota(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def per_second(self) -> float: ...
    @property
    def throttle_ms(self) -> float: ...


class ObservedQuotas(Protocol):
    def measured(self) -> Sequence[MeasuredQuota]: ...


class ObservedBroker(Protocol):
    """The parts of `broker.broker.Broker` that metrics read."""

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
    def logs(self) -> LogManager: ...
    @property
    def metadata(self) -> MetadataCache: ...
    @property
    def coordination(self) -> ObservedCoordination: ...
    @property
    def fetch_sessions(self) -> FetchSessions: ...
    @property
    def quotas(self) -> ObservedQuotas: ...


class Sources:
    """A monitored broker. From now on its requests are timed and its traffic is counted."""

    def __init__(self, broker: ObservedBroker) -> None:
        self.broker = broker
        self.timings = RequestTimings(broker.clock, broker.dispatch.sampled)
        self.traffic = TrafficMeter(
            broker.replicas, broker.config.get_int("floodmark.metrics.max.topics")
        )
        broker.dispatch.timer = self.timings

    @property
    def image(self) -> MetadataImage:
        return self.broker.metadata.image
