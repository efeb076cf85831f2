"""Requests to the coordinator of a group or transactional id, which may move at any time.

Used by the transactional producer, group members and admin. Looks the coordinator up on first use,
and again after a response that says it has moved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.silent_brokers import CoordinatorAsked
from floodmark.client.errors import KafkaError
from floodmark.wire.errors import ErrorCode

T = TypeVar("T")

_MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


async def ask_coordinator_once(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    ask: Callable[[Connection], Awaitable[T]],
    *,
    purpose: str = "",
    usual_ms: float = 0,
) -> T:
    """One attempt. The exception tells whether a retry may help.

    `purpose` separates requests that may wait long: a join must not delay another member's
    heartbeat. `usual_ms` is how long a healthy coordinator may keep the request.
    """
    try:
        asked = CoordinatorAsked(await cluster.coordinator(kind, key), kind, key)
        async with cluster.silent_brokers.attempt(asked, usual_ms=usual_ms) as wait:
            wait.connection = await cluster.coordinator_connection(kind, key, purpose)
            return await ask(wait.connection)
    except KafkaError as error:
        if error.code in _MOVED:
            cluster.forget_coordinator(kind, key)
        raise


async def ask_coordinator(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    ask: Callable[[Connection], Awaitable[T]],
    *,
    timeout_ms: float | None = None,
    purpose: str = "",
    what: str = "the request",
) -> T:
    """Retries until success, a permanent failure, or the timeout."""
    return await cluster.retry(
        lambda: ask_coordinator_once(cluster, kind, key, ask, purpose=purpose),
        timeout_ms=timeout_ms,
        what=what,
    )
