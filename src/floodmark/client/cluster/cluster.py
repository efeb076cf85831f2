"""A client's connection to the cluster: bootstrap, metadata, connections, coordinators, retries.

Producer, consumer and admin share it. `request` goes to a broker by role (any, a node, the
controller, a leader). `retry` repeats an attempt until it succeeds, fails permanently or times
out, and refreshes metadata when that helps.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from floodmark.client.cluster.asking_in_turn import ask_in_turn
from floodmark.client.cluster.backoff import Backoff
from floodmark.client.cluster.connection import Address, Connection, ConnectionOptions
from floodmark.client.cluster.pool import ConnectionPool
from floodmark.client.cluster.silent_brokers import LeaderAsked, SilentBrokers
from floodmark.client.cluster.view import Broker, ClusterView, TopicPartition
from floodmark.client.errors import (
    ClientClosed,
    ConnectionFailed,
    KafkaError,
    RequestTimedOut,
    UnknownTopic,
    raise_for_code,
)
from floodmark.client.settings import ClientSettings
from floodmark.client.unsupported_settings import PLAINTEXT, UnsupportedSetting
from floodmark.clock import Clock, SystemClock
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from floodmark.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from floodmark.client.cluster.security import Security

T = TypeVar("T")

DEFAULT_PORT = 9092
CONCURRENT_TRANSACTIONS_DELAY_MS = 20


def software_version() -> str:
    """Our version, which brokers show next to the client's name (KIP-511)."""
    # Imported late: it costs more than the rest of this module.
    from importlib.metadata import PackageNotFoundError, version

    try:
        # Despite its type, this is None if the package metadata is damaged.
        return version("floodmark") or "unknown"
    except PackageNotFoundError:
        return "unknown"


class NamedLeader(Protocol):
    """The leader in a produce or fetch response."""

    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


class NamedEndpoint(Protocol):
    """A broker in a produce or fetch response."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def rack(self) -> str | None: ...


class CoordinatorType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


def parse_servers(servers: str | Iterable[str], protocol: str = PLAINTEXT) -> list[Address]:
    """Parses `host:port,host:port` or a list of these. IPv6 hosts need brackets."""
    items = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse_server(item.strip(), protocol) for item in items if item.strip()]
    if not addresses:
        raise ValueError("no bootstrap servers: name at least one as host:port")
    return addresses


def _parse_server(text: str, protocol: str) -> Address:
    named, separator, rest = text.rpartition("://")
    if separator and named.upper() != protocol:
        # Addresses may carry a protocol, like listeners. Java's client ignores it. We must not, if
        # it asks for more security than we use.
        raise UnsupportedSetting(
            f"{text} conflicts with security.protocol={protocol}",
            why="the two name different protocols",
            hint=f"set security.protocol={named.upper()}, or write {rest}",
        )
    if separator:
        text = rest
    host, separator, port = text.rpartition(":")
    if not separator or (host.count(":") and not host.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError(f"{text} is not a server address: use host:port")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def _coordinator_purpose(kind: CoordinatorType, purpose: str) -> str:
    return f"coordinator-{kind.name}{purpose}"


def _security(settings: ClientSettings) -> Security | None:
    if settings.security_protocol == PLAINTEXT:
        return None
    # Imported late: plaintext clients do not need it.
    from floodmark.client.cluster.security import Security

    return Security(settings)


async def _itself(connection: Connection) -> Connection:
    return connection


class Cluster:
    """Opens with `async with` or on the first request. `close` closes all connections."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        settings: ClientSettings | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or ClientSettings()
        self.clock: Clock = clock or SystemClock()
        self.view = ClusterView()
        self.backoff = Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)
        self._bootstrap = parse_servers(bootstrap_servers, self.settings.security_protocol)
        self._pool = ConnectionPool(
            ConnectionOptions(
                client_id=self.settings.client_id,
                software_version=software_version(),
                connect_timeout_ms=self.settings.socket_connection_setup_timeout_ms,
                request_timeout_ms=self.settings.request_timeout_ms,
                security=_security(self.settings),
            ),
            max_idle_ms=self.settings.connections_max_idle_ms,
        )
        self.silent_brokers = SilentBrokers(self)
        self._wanted: set[str] = set()
        self._wants_all = False
        self._refreshed_ms: float | None = None
        self._refresh_lock = asyncio.Lock()
        self._refreshes_begun = 0
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connects once, so that a wrong address fails now and not on the first request."""
        if self._refreshed_ms is None:
            await self.refresh()

    async def close(self) -> None:
        """Closes all connections."""
        self._closed = True
        await self.silent_brokers.close()
        await self._pool.close()

    # --- metadata ---

    async def refresh(self) -> ClusterView:
        """Fetches the brokers and the wanted topics. Concurrent callers share one request."""
        seen = self._refreshes_begun
        async with self._refresh_lock:
            # A refresh that began before this call may lack topics that are wanted now.
            if self._refreshes_begun == seen:
                self._refreshes_begun += 1
                if self._wants_all:
                    await self._load(None, auto_create=False)
                else:
                    topics = [MetadataRequestTopic(name=name) for name in sorted(self._wanted)]
                    await self._load(topics, auto_create=self.settings.allow_auto_create_topics)
        return self.view

    async def refresh_all_topics(self) -> ClusterView:
        """Fetches metadata of every topic once, for admin."""
        async with self._refresh_lock:
            await self._load(None, auto_create=False)
        return self.view

    async def look_up(self, topics: Iterable[str], *, besides: Collection[Address]) -> None:
        """Fetches these topics from brokers other than those at some addresses."""
        wanted = [MetadataRequestTopic(name=name) for name in sorted(topics)]
        message = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await self._ask_any(lambda one: one.request(message), besides=besides)
        self._learn(response, complete=False)

    async def topics_of(
        self, names: Iterable[str], *, timeout_ms: float | None = None
    ) -> ClusterView:
        """A view that includes these topics and is recent enough. Raises if one does not exist."""
        wanted = set(names)

        async def attempt() -> ClusterView:
            if (
                not wanted <= self._wanted
                or not wanted <= self.view.topics.keys()
                or self.is_old(self.clock.monotonic_ms())
            ):
                self._wanted |= wanted
                await self.refresh()
            for name in wanted - self.view.topics.keys():
                self._raise_missing(name)
            return self.view

        try:
            return await self.retry(attempt, timeout_ms=timeout_ms, what="metadata")
        finally:
            # Otherwise every later refresh would ask for topics that do not exist, or fail because
            # a name does not fit into a request.
            self._wanted -= wanted - self.view.topics.keys()

    def leader_of(self, partition: TopicPartition) -> int:
        """The leader's last known node id. Raises a retriable error if there is none."""
        found = self.view.partition(partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist")
        if found.leader == NO_LEADER or found.leader not in self.view.brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} currently has no leader")
        return found.leader

    def want_topics(self, names: Iterable[str]) -> None:
        """Includes these topics in every refresh, whether they exist or not."""
        self._wanted |= set(names)

    def want_all_topics(self) -> None:
        """Includes every topic in every refresh, for pattern subscriptions."""
        self._wants_all = True

    def forget_topics(self, names: Iterable[str]) -> None:
        """Removes these topics from future refreshes."""
        self._wanted -= set(names)

    def learn_leader(
        self, partition: TopicPartition, leader: NamedLeader, endpoints: Iterable[NamedEndpoint]
    ) -> None:
        """Applies the new leader and its address from an error response, if present (KIP-951)."""
        if leader.leader_id < 0:
            return
        at = next((node for node in endpoints if node.node_id == leader.leader_id), None)
        broker = None if at is None else Broker(at.node_id, Address(at.host, at.port), at.rack)
        self.view = self.view.with_leader(partition, leader.leader_id, leader.leader_epoch, broker)

    def is_old(self, now_ms: float) -> bool:
        """Whether the last refresh is older than `metadata.max.age.ms`."""
        if self._refreshed_ms is None:
            return True
        return now_ms - self._refreshed_ms > self.settings.metadata_max_age_ms

    # --- requests ---

    async def request(
        self, message: Any, *, timeout_ms: float | None = None, max_version: int | None = None
    ) -> Any:
        """Sends a request to any broker, and to another too if it does not respond in a second.

        For requests that may be repeated.
        """
        return await self._ask_any(
            lambda connection: connection.request(
                message, timeout_ms=timeout_ms, max_version=max_version
            )
        )

    async def connection_to(self, node_id: int, purpose: str = "") -> Connection:
        """A connection to a broker, opened if necessary. `purpose` separates connections."""
        if node_id not in self.view.brokers:
            await self.refresh()
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster"
            )
        return await self._pool.get(broker.address, purpose)

    def open_connection_to(self, node_id: int, purpose: str = "") -> Connection | None:
        """The connection to this broker if it is already open.

        For requests that must go out in order: waiting for a connection could reorder them.
        """
        broker = self.view.brokers.get(node_id)
        return None if broker is None else self._pool.find(broker.address, purpose)

    async def controller_connection(self) -> Connection:
        """A connection to the controller, opened if necessary."""
        if self.view.controller_id == NO_LEADER:
            await self.refresh()
        if self.view.controller_id == NO_LEADER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the cluster currently has no controller")
        return await self.connection_to(self.view.controller_id)

    async def leader_connection(
        self, node_id: int, partitions: Collection[TopicPartition], purpose: str = ""
    ) -> Connection:
        """`connection_to` the leader of these partitions, unless another takes over meanwhile."""
        connection = self.open_connection_to(node_id, purpose)
        if connection is not None:
            return connection
        if node_id not in self.view.brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} has left")
        async with self.silent_brokers.attempt(LeaderAsked(node_id, partitions, self.view)):
            return await self.connection_to(node_id, purpose)

    async def coordinator(self, kind: CoordinatorType, key: str) -> int:
        """The node id of the coordinator of a group or transactional id."""
        node_id = self._coordinators.get((kind, key))
        if node_id is None or node_id not in self.view.brokers:
            node_id = self._coordinators[kind, key] = await self.find_coordinator(kind, key)
        return node_id

    async def coordinator_connection(
        self, kind: CoordinatorType, key: str, purpose: str = ""
    ) -> Connection:
        """A connection to the coordinator of a group or transactional id."""
        node_id = await self.coordinator(kind, key)
        return await self.connection_to(node_id, _coordinator_purpose(kind, purpose))

    async def close_coordinator_connections(
        self, kind: CoordinatorType, purposes: Iterable[str]
    ) -> None:
        """For a caller that had connections of its own, and is done."""
        await self._pool.close_for({_coordinator_purpose(kind, one) for one in purposes})

    async def find_coordinator(
        self,
        kind: CoordinatorType,
        key: str,
        *,
        at: int | None = None,
        besides: Collection[Address] = (),
    ) -> int:
        """Asks a broker, by default any, for the node id of a coordinator."""

        async def ask(connection: Connection) -> int:
            # Version 4 added the batched form. We fill both: the encoder drops one of them.
            batched = connection.version_for(FindCoordinatorRequest) >= 4
            message = FindCoordinatorRequest(
                key="" if batched else key, key_type=kind, coordinator_keys=[key] if batched else []
            )
            response: FindCoordinatorResponse = await connection.request(message)
            answer = response.coordinators[0] if batched else response
            raise_for_code(answer.error_code, answer.error_message)
            return answer.node_id

        if at is None:
            node_id = await self._ask_any(ask, besides=besides)
        else:
            node_id = await ask(await self.connection_to(at))
        if node_id not in self.view.brokers:
            await self.refresh()
        if node_id not in self.view.brokers:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"broker {node_id}, the coordinator of {key}, is not in the cluster",
            )
        return node_id

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Looks the coordinator up again next time. For NOT_COORDINATOR or a lost connection."""
        self._coordinators.pop((kind, key), None)

    def broker_at(self, address: Address) -> Broker | None:
        """The broker with this address, if it is known."""
        return next((b for b in self.view.brokers.values() if b.address == address), None)

    async def any_connection(self) -> Connection:
        """A connection to any broker, preferably one that is open and idle."""
        return await self._ask_any(_itself)

    def note_silent(self, address: Address) -> None:
        """Asks the broker at this address last for a while: it did not respond in time."""
        self._pool.note_silent(address)

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_ms: float | None = None,
        what: str = "the request",
    ) -> T:
        """Repeats until success, a permanent failure, or the timeout.

        The timeout is `timeout_ms`, or `default.api.timeout.ms` by default.
        """
        budget_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.monotonic_ms() + budget_ms
        failures = 0
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error.retriable:
                    raise
                failures += 1
                delay_ms = self.delay_ms(error, failures)
                if self.clock.monotonic_ms() + delay_ms > deadline_ms:
                    if isinstance(error, ConnectionFailed):
                        raise
                    raise RequestTimedOut(
                        f"{what} did not succeed in {budget_ms:.0f} ms, last error: {error}"
                    ) from error
                await asyncio.sleep(delay_ms / 1000)
                await self._recover_from(error)

    def delay_ms(self, error: KafkaError, failures: int) -> float:
        """The delay before retrying after this many consecutive failures."""
        if error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            # The coordinator is completing the previous transaction, which takes milliseconds.
            return min(CONCURRENT_TRANSACTIONS_DELAY_MS, self.settings.retry_backoff_ms)
        return self.backoff.delay_ms(failures)

    # --- inside ---

    async def _recover_from(self, error: KafkaError) -> None:
        """Refreshes metadata if the error says that ours is stale.

        If the refresh fails too, the next attempt finds out.
        """
        if self._closed:
            raise ClientClosed("the client is closed")
        if error.stale_metadata and self._refreshed_ms is not None:
            try:
                await self.refresh()
            except KafkaError as refresh_error:
                if not refresh_error.retriable:
                    raise

    async def _load(self, topics: list[MetadataRequestTopic] | None, *, auto_create: bool) -> None:
        message = MetadataRequest(topics=topics, allow_auto_topic_creation=auto_create)
        self._learn(await self.request(message), complete=topics is None)
        self._refreshed_ms = self.clock.monotonic_ms()

    def _learn(self, response: MetadataResponse, *, complete: bool) -> None:
        raise_for_code(response.error_code, "the metadata request failed")
        self.view = self.view.merge(response, complete=complete)

    async def _ask_any(
        self,
        ask: Callable[[Connection], Coroutine[Any, Any, T]],
        *,
        besides: Collection[Address] = (),
    ) -> T:
        async def ask_at(address: Address) -> T:
            # An idle connection, because a long-polling fetch would delay the response.
            connection = self._pool.idle(address) or await self._pool.get(address)
            return await ask(connection)

        addresses = [one for one in self._addresses() if one not in besides]
        return await ask_in_turn(
            addresses,
            ask_at,
            patience_s=self.silent_brokers.patience_ms / 1000,
            on_slow=self._pool.note_silent,
        )

    def _addresses(self) -> list[Address]:
        """Known brokers, then bootstrap servers; those with an idle connection first.

        Brokers that did not respond in time come last: one that stands still knows nothing new.
        """
        known = [broker.address for broker in self.view.brokers.values()]
        random.shuffle(known)
        return sorted(
            dict.fromkeys([*known, *self._bootstrap]),
            key=lambda one: (self._pool.is_silent(one), self._pool.idle(one) is None),
        )

    def _raise_missing(self, name: str) -> None:
        code = self.view.topic_errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(name)
        raise KafkaError(code, f"topic {name}: {KafkaError(code).text}")
