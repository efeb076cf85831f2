"""Turns request bytes into response bytes, through the gates.

Each request goes the same way: authenticate, decode, authorize, handle, throttle (`apis.gate`).
Prepared requests (`apis.prepared`) skip decoding and authorizing, as long as neither ACLs nor
quotas have changed since they were prepared.

`SERVED` is the single list of supported APIs: ApiVersions returns it, docs/compatibility.md is
generated from it, and other requests are refused. An API's module and codecs load on its first
request, which keeps the start short.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

from floodmark.apis.access import NOTHING
from floodmark.apis.authorizer import Guard
from floodmark.apis.context import RequestContext, Services
from floodmark.apis.forwarding import FORWARDED, forwarding
from floodmark.apis.gate import BEFORE_AUTHENTICATION, handle_guarded
from floodmark.apis.handlers import api_versions, produce_before_v3
from floodmark.apis.key_changes import KEY_CHANGES, checking_keys
from floodmark.apis.mutation_quota import MUTATIONS, limiting
from floodmark.apis.raw_sasl import is_raw, raw_token
from floodmark.apis.repeated_names import NAMED_ONCE, naming_once
from floodmark.apis.route import Handle, Route
from floodmark.network.connection import Connection, Peer
from floodmark.network.principal import ANONYMOUS
from floodmark.network.request_channel import CloseConnection, Outcome
from floodmark.wire import messages
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import decoder, encoder
from floodmark.wire.headers import decode_request_header, response_header_encoder
from floodmark.wire.schema import DecodeError

logger = logging.getLogger(__name__)


class Served(NamedTuple):
    lowest: int
    highest: int


_PRODUCE = int(ApiKey.PRODUCE)

Learn: TypeAlias = Callable[[RequestContext, Route, memoryview, Any, Any], None]

SERVED: dict[ApiKey, Served] = {
    ApiKey.PRODUCE: Served(3, 13),
    ApiKey.FETCH: Served(4, 18),
    ApiKey.LIST_OFFSETS: Served(1, 11),
    ApiKey.METADATA: Served(0, 13),
    ApiKey.OFFSET_COMMIT: Served(2, 10),
    ApiKey.OFFSET_FETCH: Served(1, 10),
    ApiKey.FIND_COORDINATOR: Served(0, 6),
    ApiKey.JOIN_GROUP: Served(0, 9),
    ApiKey.HEARTBEAT: Served(0, 4),
    ApiKey.LEAVE_GROUP: Served(0, 5),
    ApiKey.SYNC_GROUP: Served(0, 5),
    ApiKey.DESCRIBE_GROUPS: Served(0, 6),
    ApiKey.LIST_GROUPS: Served(0, 5),
    ApiKey.SASL_HANDSHAKE: Served(0, 1),
    ApiKey.API_VERSIONS: Served(0, 4),
    ApiKey.CREATE_TOPICS: Served(2, 7),
    ApiKey.DELETE_TOPICS: Served(1, 6),
    ApiKey.DELETE_RECORDS: Served(0, 2),
    ApiKey.INIT_PRODUCER_ID: Served(0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served(2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Served(0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Served(0, 4),
    ApiKey.END_TXN: Served(0, 5),
    ApiKey.WRITE_TXN_MARKERS: Served(1, 2),
    ApiKey.TXN_OFFSET_COMMIT: Served(0, 5),
    ApiKey.DESCRIBE_ACLS: Served(1, 3),
    ApiKey.CREATE_ACLS: Served(1, 3),
    ApiKey.DELETE_ACLS: Served(1, 3),
    ApiKey.DESCRIBE_CONFIGS: Served(1, 4),
    ApiKey.ALTER_CONFIGS: Served(0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Served(1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Served(1, 5),
    ApiKey.SASL_AUTHENTICATE: Served(0, 2),
    ApiKey.CREATE_PARTITIONS: Served(0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: Served(1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: Served(1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Served(1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Served(1, 3),
    ApiKey.DELETE_GROUPS: Served(0, 2),
    ApiKey.ELECT_LEADERS: Served(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served(0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Served(0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Served(0, 0),
    ApiKey.OFFSET_DELETE: Served(0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Served(0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Served(0, 1),
    ApiKey.UPDATE_FEATURES: Served(0, 2),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Served(0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Served(0, 0),
    ApiKey.DESCRIBE_CLUSTER: Served(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: Served(0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Served(0, 0),
    ApiKey.LIST_TRANSACTIONS: Served(0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Served(0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Served(0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served(0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: Served(0, 1),
}


SERVED_TO_BROKERS: dict[ApiKey, Served] = {
    ApiKey.LEADER_AND_ISR: Served(5, 7),
    ApiKey.STOP_REPLICA: Served(3, 4),
    ApiKey.UPDATE_METADATA: Served(5, 8),
    ApiKey.CONTROLLED_SHUTDOWN: Served(1, 3),
    ApiKey.ALTER_PARTITION: Served(2, 3),
    ApiKey.ALLOCATE_PRODUCER_IDS: Served(0, 0),
}
"""APIs between the brokers of a cluster. A single broker does not serve them."""

MOST_ENTRIES_OF_BROKERS = 10_000_000
"""The controller may name every partition in one request."""


def served_apis(*, in_cluster: bool) -> dict[ApiKey, Served]:
    return {**SERVED, **SERVED_TO_BROKERS} if in_cluster else SERVED


def advertised_versions(*, in_cluster: bool = False) -> dict[int, tuple[int, int]]:
    """The ApiVersions response: what is served, and Produce from 0 (see `produce_before_v3`)."""
    served_here = served_apis(in_cluster=in_cluster)
    versions = {int(key): (served.lowest, served.highest) for key, served in served_here.items()}
    versions[ApiKey.PRODUCE] = (produce_before_v3.VERSIONS.start, SERVED[ApiKey.PRODUCE].highest)
    return versions


class FaultSwitch:
    """A hook for `floodmark.testing` to make requests fail. Does nothing by default.

    It returns what a handler may return: a response, a promise or coroutine of one, or None.
    """

    @property
    def is_armed(self) -> bool:
        """Whether it wants to see the next request."""
        return False

    def intercept(self, route: Route, request: object, handle: Callable[[], object]) -> object:
        return handle()


class RequestTimer(Protocol):
    """A hook for `floodmark.observability` to measure request durations."""

    def now_ms(self) -> float:
        """The start time of a timed request."""

    def timed(
        self, api_key: int, begin_ms: float, outcome: Outcome, connection: Connection
    ) -> Outcome:
        """The request's outcome. If it is still pending, its completion is timed."""


SAMPLE_EVERY = 16
"""Only one in this many produces and fetches is timed. Reading the clock and updating the histogram
takes half a microsecond, a thirtieth of a small produce."""

SAMPLED = {int(ApiKey.PRODUCE): SAMPLE_EVERY, int(ApiKey.FETCH): SAMPLE_EVERY}
"""The high-volume requests, and how many requests each timed one stands for. All others are always
timed."""


class Dispatch:
    """The request handler that the broker passes to the network."""

    def __init__(self, services: Services) -> None:
        self._services = services
        # A request occupies the loop for some microseconds per entry.
        self._most_entries = services.config.get_int("floodmark.request.max.entries")
        self._routes: dict[tuple[int, int], Route] = {}
        self.faults: FaultSwitch | None = None
        self.timer: RequestTimer | None = None
        # Keyed by plain numbers: hashing an enum member calls a Python function.
        self._served = served_apis(in_cluster=ApiKey.LEADER_AND_ISR in services.api_versions)
        self._decoded: dict[int, int] = {int(key): 0 for key in self._served}
        self._prepared = 0
        self._generation = services.generation
        # Prepares produces. Loaded with the first one, like the API itself.
        self._learn: Learn | None = None
        self.failures = services.failures
        self.sampled: Mapping[int, int] = SAMPLED

    def handle(self, connection: Connection, frame: memoryview) -> Outcome:
        """Uses a prepared request if possible, otherwise the full path."""
        prepared, faults = connection.peer.prepared, self.faults
        if (
            prepared is None
            or (outcome_of := prepared.outcome_of) is None
            or prepared.generation != self._generation.number
            or (faults is not None and faults.is_armed)
        ):
            return self._handle_in_full(connection, frame)
        count, timer = self._prepared + 1, self.timer
        begin_ms = None if timer is None or count % SAMPLE_EVERY else timer.now_ms()
        outcome = outcome_of(frame)
        if outcome is None:
            return self._handle_in_full(connection, frame)
        self._prepared = count
        if begin_ms is None or timer is None:
            return outcome
        return timer.timed(_PRODUCE, begin_ms, outcome, connection)

    def _handle_in_full(self, connection: Connection, frame: memoryview) -> Outcome:
        peer, services = connection.peer, self._services
        timer, decoded = self.timer, self._decoded
        begin_ms: float | None = None
        if peer.principal is None and is_raw(peer):
            return raw_token(services, peer, frame)
        try:
            header, position = decode_request_header(frame)
            api_key, version = header.api_key, header.api_version
            route = self._routes.get((api_key, version)) or self._find_route(api_key, version)
            if peer.principal is None and api_key not in BEFORE_AUTHENTICATION:
                raise CloseConnection(f"{route.api_key.name} before authentication")
            count = decoded[api_key]
            if timer is not None and (api_key not in SAMPLED or not count % SAMPLE_EVERY):
                begin_ms = timer.now_ms()
            request, _ = route.decode(frame, position, route.most_entries)
        except DecodeError as problem:
            raise CloseConnection(f"invalid request: {problem}") from problem
        decoded[api_key] = count + 1
        context = RequestContext(services, peer, header, len(frame))
        if services.quotas.measures_time:
            context.busy_since_ms = services.clock.monotonic_ms()
        handle = route.handle if services.authorizer.allows_all else self._guarded(route, peer)
        faults = self.faults
        if faults is None or not faults.is_armed:
            result = handle(context, request)
        else:
            result = faults.intercept(route, request, lambda: handle(context, request))
        if api_key == _PRODUCE and self._learn is not None:
            self._learn(context, route, frame, request, result)
        outcome = route.outcome(context, result)
        context.wait()
        if begin_ms is None or timer is None:
            return outcome
        return timer.timed(api_key, begin_ms, outcome, connection)

    @property
    def requests(self) -> dict[int, int]:
        """The number of requests, by API key."""
        return {**self._decoded, _PRODUCE: self._decoded[_PRODUCE] + self._prepared}

    def _guarded(self, route: Route, peer: Peer) -> Handle:
        """The handler behind the authorizer."""
        authorizer, principal = self._services.authorizer, peer.principal or ANONYMOUS
        guard = Guard(authorizer, principal, peer.host, route.api_key)

        def handle(context: RequestContext, request: Any) -> Any:
            context.guard = guard
            return handle_guarded(route, context, guard, request)

        return handle

    def _find_route(self, api_key: int, version: int) -> Route:
        try:
            known_key = ApiKey(api_key)
            served = self._served[known_key]
        except (ValueError, KeyError):
            raise CloseConnection(f"API key {api_key} is not supported") from None
        if not served.lowest <= version <= served.highest:
            return self._route_of_unserved(known_key, version)
        return self._load(known_key, version)

    def _load(self, api_key: ApiKey, version: int) -> Route:
        module = import_module(f"floodmark.apis.handlers.{api_key.name.lower()}")
        handle: Handle = module.handle
        if api_key in FORWARDED:
            handle = forwarding(handle)
        if api_key in KEY_CHANGES:
            handle = checking_keys(api_key, handle)
        if api_key in MUTATIONS:
            handle = limiting(api_key, handle)
        if api_key is ApiKey.PRODUCE:
            self._learn = import_module("floodmark.apis.prepared.produces").learn
        decode = decoder(messages.request_class(api_key), version)
        if api_key in NAMED_ONCE:
            decode = naming_once(NAMED_ONCE[api_key], decode)
        response_class = messages.response_class(api_key)
        route = Route(
            api_key,
            version,
            handle,
            decode,
            encoder(response_class, version),
            response_class,
            response_header_encoder(api_key, version),
            module.ACCESS,
            MOST_ENTRIES_OF_BROKERS if api_key in SERVED_TO_BROKERS else self._most_entries,
            self._services.failures.counter(int(api_key), response_class),
        )
        self._routes[(int(api_key), version)] = route
        return route

    def _route_of_unserved(self, api_key: ApiKey, version: int) -> Route:
        """Two APIs respond to unknown versions; for all others the connection closes.

        ApiVersions responds in its oldest format with UNSUPPORTED_VERSION and the ranges (KIP-511).
        Produce below 3 is advertised for old librdkafka versions, and refused in its own format.
        """
        if api_key is ApiKey.API_VERSIONS:
            return Route(
                api_key,
                0,
                api_versions.refuse_version,
                lambda frame, position, most_entries: (None, position),
                encoder(messages.response_class(api_key), 0),
                messages.response_class(api_key),
                response_header_encoder(api_key, 0),
                NOTHING,
                self._most_entries,
                count_errors=self._services.failures.counter(
                    int(api_key), messages.response_class(api_key)
                ),
            )
        if api_key is ApiKey.PRODUCE and version in produce_before_v3.VERSIONS:
            return Route(
                api_key,
                version,
                produce_before_v3.handle,
                produce_before_v3.decode,
                produce_before_v3.encode,
                produce_before_v3.Refused,
                response_header_encoder(api_key, version),
                NOTHING,
                self._most_entries,
            )
        raise CloseConnection(f"{api_key.name} v{version} is not supported")
