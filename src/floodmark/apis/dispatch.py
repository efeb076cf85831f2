"""From the bytes of a request to the bytes of its answer.

`SERVED` is the one list of what this broker can do: ApiVersions answers it, docs/compatibility.md
is made from it, and a request outside it is refused. An API's module and its codecs are loaded when
the first request for them comes, which keeps the start short.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from floodmark.apis import api_versions, produce_before_v3
from floodmark.apis.context import RequestContext, Services
from floodmark.apis.route import Handle, Remember, Route
from floodmark.network.connection import Connection
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
    ApiKey.UPDATE_FEATURES: Served(0, 2),
    ApiKey.DESCRIBE_CLUSTER: Served(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: Served(0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Served(0, 0),
    ApiKey.LIST_TRANSACTIONS: Served(0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Served(0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Served(0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served(0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: Served(0, 1),
}


def advertised_versions() -> dict[int, tuple[int, int]]:
    """What ApiVersions answers: what is served, and Produce from 0 (see `produce_before_v3`)."""
    versions = {int(key): (served.lowest, served.highest) for key, served in SERVED.items()}
    versions[ApiKey.PRODUCE] = (produce_before_v3.VERSIONS.start, SERVED[ApiKey.PRODUCE].highest)
    return versions


class FaultSwitch:
    """What `floodmark.testing` plugs in to make requests fail on purpose; does nothing itself.

    It returns what a handler may return: an answer, a future or coroutine of one, or None.
    """

    @property
    def is_armed(self) -> bool:
        """Whether it wants to see the next request."""
        return False

    def intercept(self, route: Route, request: Any, handle: Callable[[], Any]) -> Any:
        return handle()


class RequestTimer(Protocol):
    """What `floodmark.observability` plugs in when somebody wants to see how long requests take."""

    def is_due(self) -> bool:
        """Asked once per request: whether this one is to be timed."""

    def time(self, api_key: ApiKey, handle: Callable[[], Any]) -> Any:
        """Runs the handler and returns what it returned, or a coroutine in its place."""


class Dispatch:
    """The request handler that the broker gives to the network."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._routes: dict[tuple[int, int], Route] = {}
        self.faults: FaultSwitch | None = None
        self.timer: RequestTimer | None = None
        # By plain numbers: hashing an enum member is a call of a Python function.
        self.requests: dict[int, int] = {int(key): 0 for key in SERVED}

    def handle(self, connection: Connection, frame: memoryview) -> Outcome:
        peer = connection.peer
        timer, faults = self.timer, self.faults
        if timer is not None and not timer.is_due():
            timer = None
        if faults is not None and not faults.is_armed:
            faults = None
        if timer is None and faults is None and peer.shortcut is not None:
            outcome = peer.shortcut.outcome_of(frame)
            if outcome is not None:
                self.requests[_PRODUCE] += 1
                return outcome
        try:
            header, position = decode_request_header(frame)
            api_key, version = header.api_key, header.api_version
            route = self._routes.get((api_key, version)) or self._find_route(api_key, version)
            request, _ = route.decode(frame, position)
        except DecodeError as problem:
            raise CloseConnection(f"cannot read a request: {problem}") from problem
        self.requests[api_key] += 1
        context = RequestContext(self._services, peer, header)
        handle = route.handle
        if timer is not None or faults is not None:
            handle = _watched(route, timer, faults)
        result = handle(context, request)
        if route.remember is not None:
            route.remember(context, route, frame, request, result)
        return route.outcome(header.correlation_id, result)

    def _find_route(self, api_key: int, version: int) -> Route:
        try:
            known_key = ApiKey(api_key)
            served = SERVED[known_key]
        except (ValueError, KeyError):
            raise CloseConnection(f"API key {api_key} is not served") from None
        if not served.lowest <= version <= served.highest:
            return self._route_of_unserved(known_key, version)
        return self._load(known_key, version)

    def _load(self, api_key: ApiKey, version: int) -> Route:
        module = import_module(f"floodmark.apis.{api_key.name.lower()}")
        response_class = messages.response_class(api_key)
        route = Route(
            api_key,
            version,
            module.handle,
            decoder(messages.request_class(api_key), version),
            encoder(response_class, version),
            response_class,
            response_header_encoder(api_key, version),
            _remember_of(api_key),
        )
        self._routes[(int(api_key), version)] = route
        return route

    def _route_of_unserved(self, api_key: ApiKey, version: int) -> Route:
        """Two APIs answer versions they do not know; for all others the connection ends.

        ApiVersions answers in its oldest form with UNSUPPORTED_VERSION and the ranges (KIP-511).
        Produce below 3 is advertised for the sake of old librdkafka and refused in kind.
        """
        if api_key is ApiKey.API_VERSIONS:
            return Route(
                api_key,
                0,
                api_versions.refuse_version,
                lambda frame, position: (None, position),
                encoder(messages.response_class(api_key), 0),
                messages.response_class(api_key),
                response_header_encoder(api_key, 0),
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
            )
        raise CloseConnection(f"{api_key.name} v{version} is not served")


def _remember_of(api_key: ApiKey) -> Remember | None:
    """What comes again often enough to be remembered. Loaded with the first request, as the API."""
    if api_key is not ApiKey.PRODUCE:
        return None
    remember: Remember = import_module("floodmark.apis.repeated_produce").remember
    return remember


def _watched(route: Route, timer: RequestTimer | None, faults: FaultSwitch | None) -> Handle:
    """The handler with what is plugged in around it: a fault is timed like any other answer."""

    def intercepted(context: RequestContext, request: Any) -> Any:
        if faults is None:
            return route.handle(context, request)
        return faults.intercept(route, request, lambda: route.handle(context, request))

    def timed(context: RequestContext, request: Any) -> Any:
        assert timer is not None
        return timer.time(route.api_key, lambda: intercepted(context, request))

    return intercepted if timer is None else timed
