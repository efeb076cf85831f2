"""What a handler gets: the parts of the broker it may use, and the client's identity.

`broker.broker` creates `Services` once; `apis.dispatch` creates a `RequestContext` per request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

from floodmark.apis.authorizer import (
    AllowAll,
    Authorizer,
    Guard,
    Operation,
    Resource,
    ResourceKind,
)
from floodmark.apis.failures import Failures
from floodmark.apis.prepared.memory import Generation
from floodmark.apis.quotas import Quotas, Unlimited, Usage
from floodmark.controller.topic_names import why_invalid
from floodmark.vocabulary import NO_LEADER, NO_LEADER_EPOCH, TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import RequestHeader

if TYPE_CHECKING:
    from pathlib import Path

    from floodmark.apis.authenticator import Authenticator
    from floodmark.apis.delegation_tokens import TokenService
    from floodmark.apis.key_changes import KeyCheck
    from floodmark.clock import Clock
    from floodmark.config.broker_config import BrokerConfig
    from floodmark.controller.controller import Controller
    from floodmark.controller.topics import CreatedTopic, NewTopic
    from floodmark.coordinators.groups.service import GroupService
    from floodmark.coordinators.transactions.service import TransactionService
    from floodmark.metadata.cache import MetadataCache
    from floodmark.metadata.departed import DepartedBrokers
    from floodmark.metadata.image import MetadataImage, TopicImage
    from floodmark.network.connection import Peer
    from floodmark.replication.fetch_sessions import FetchSessions
    from floodmark.replication.replica_manager import ReplicaManager
    from floodmark.storage.log_manager import LogManager
    from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest
    from floodmark.wire.messages.stop_replica import StopReplicaRequest
    from floodmark.wire.messages.update_metadata import UpdateMetadataRequest

NO_LEADER_AND_EPOCH = (NO_LEADER, NO_LEADER_EPOCH)


class Reachability(NamedTuple):
    """What clients learn about where to reach a partition."""

    error_code: ErrorCode
    leader_id: int
    offline_replicas: list[int]


class ControllerClient(Protocol):
    """The controller, local or remote."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[CreatedTopic]: ...
    async def request(self, message: Any, max_version: int | None = None) -> Any: ...


class ControlRequests(Protocol):
    """Handles the controller's requests to this broker."""

    async def update_metadata(self, request: UpdateMetadataRequest) -> ErrorCode: ...
    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> ErrorCode: ...
    async def stop_replica(self, request: StopReplicaRequest) -> ErrorCode: ...


class FolderMoves(Protocol):
    """Moves partitions between log folders."""

    def request(self, key: TopicPartition, target: Path) -> None: ...


class Coordinators(Protocol):
    """The group and transaction coordinators, each created on first use."""

    @property
    def groups(self) -> GroupService: ...
    @property
    def transactions(self) -> TransactionService: ...


@dataclass(slots=True)
class Services:
    """The broker, as the APIs see it."""

    broker_id: int
    clock: Clock
    replicas: ReplicaManager
    logs: LogManager
    metadata: MetadataCache
    controller: Controller
    controller_client: ControllerClient
    control: ControlRequests
    coordinators: Coordinators
    fetch_sessions: FetchSessions
    folder_moves: FolderMoves
    api_versions: Mapping[int, tuple[int, int]]
    failures: Failures = field(default_factory=Failures)
    authorizer: Authorizer = field(default_factory=AllowAll)
    quotas: Quotas = field(default_factory=Unlimited)
    authenticator: Authenticator | None = None
    delegation_tokens: TokenService | None = None
    key_check: KeyCheck | None = None
    """None if no listener has keys."""
    # Must end with every ACL or quota change.
    generation: Generation = field(default_factory=Generation)
    departed: DepartedBrokers | None = None
    """None if there are no other brokers."""

    @property
    def groups(self) -> GroupService:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionService:
        return self.coordinators.transactions

    @property
    def config(self) -> BrokerConfig:
        return self.metadata.config

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def fetch_max_bytes(self) -> int:
        return self.metadata.config.get_int("fetch.max.bytes")

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.metadata.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """The leader and its epoch, as far as this broker knows."""
        found = self.image.partition(topic, partition)
        return NO_LEADER_AND_EPOCH if found is None else (found.leader, found.leader_epoch)

    def reachability(self, topic: TopicImage, indexes: range) -> Iterator[Reachability]:
        """Most of these partitions share leader and replicas with an earlier one."""
        is_offline = self.replicas.is_offline
        known: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Reachability] = {}
        for index in indexes:
            partition = topic.partitions[index]
            lost = partition.lost_replicas
            if is_offline((topic.name, index)):
                # The controller may not know yet.
                lost = (*lost, self.broker_id)
            of_this = (partition.leader, partition.replicas, lost)
            found = known.get(of_this)
            if found is None:
                found = known[of_this] = self._reachability(*of_this)
            yield found

    def _reachability(
        self, leader: int, replicas: tuple[int, ...], lost: tuple[int, ...]
    ) -> Reachability:
        """A replica is offline if its broker, or its log folder there, is gone."""
        offline = [
            replica for replica in replicas if replica in lost or not self.image.is_live(replica)
        ]
        if leader in offline or not self.image.is_live(leader):
            return Reachability(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, offline)
        return Reachability(ErrorCode.NONE, leader, offline)

    def broker_endpoints(
        self, listener: str, *, with_departed: bool = False
    ) -> Iterator[tuple[int, str, int, str | None]]:
        """Id, host, port and rack of the live brokers with this listener.

        On request, includes brokers that have just left.
        """
        brokers = self.image.live_brokers()
        if with_departed and self.departed is not None:
            brokers += self.departed.recent()
        for broker in brokers:
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None:
                yield broker.id, endpoint.host, endpoint.port, broker.rack

    def why_unknown(self, topic: str) -> ErrorCode:
        """Distinguishes an invalid topic name from an unknown one."""
        if why_invalid(topic) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.INVALID_TOPIC_EXCEPTION


class RequestContext:
    """One request: the services it may use, its sender and its header.

    The peer holds the sender's principal, listener and address.
    """

    __slots__ = (
        "api_version",
        "busy_ms",
        "busy_since_ms",
        "guard",
        "header",
        "is_counted",
        "peer",
        "request_bytes",
        "services",
        "throttle_ms",
    )

    def __init__(
        self, services: Services, peer: Peer, header: RequestHeader, request_bytes: int = 0
    ) -> None:
        self.services = services
        self.peer = peer
        self.header = header
        self.api_version = header.api_version
        self.request_bytes = request_bytes
        # None if the authorizer allows everything.
        self.guard: Guard | None = None
        # Whether the handler has already counted the request against the quotas.
        self.is_counted = False
        # How long the handler wants its client to wait.
        self.throttle_ms = 0
        # How long the loop has worked on it, if measured.
        self.busy_ms = 0.0
        self.busy_since_ms: float | None = None

    def wait(self) -> None:
        """Pauses the measured time until the response is ready."""
        if self.busy_since_ms is not None:
            self.busy_ms = self.services.clock.monotonic_ms() - self.busy_since_ms
            self.busy_since_ms = None

    def usage(self, answer_bytes: int) -> Usage:
        """The request's usage so far, for the quotas."""
        peer, busy_ms = self.peer, self.busy_ms
        if self.busy_since_ms is not None:
            busy_ms = self.services.clock.monotonic_ms() - self.busy_since_ms
        return Usage(
            peer.principal,
            self.client_id,
            peer.host,
            self.header.api_key,
            self.request_bytes,
            answer_bytes,
            busy_ms,
        )

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def correlation_id(self) -> int:
        return self.header.correlation_id

    @property
    def is_librdkafka(self) -> bool:
        """Its bindings use their own name and add librdkafka's version: `2.16.1-rdkafka-2.16.0`."""
        return "rdkafka" in self.peer.client_software_name + self.peer.client_software_version

    @property
    def visible_topics(self) -> Mapping[str, TopicImage]:
        """All topics visible to this client."""
        topics, guard = self.services.image.topics, self.guard
        if guard is None:
            return topics
        return {
            name: topic
            for name, topic in topics.items()
            if guard.would_allow(Operation.DESCRIBE, Resource(ResourceKind.TOPIC, name))
        }
