"""Requests to the coordinator of a group or of a transactional id, which may move at any time.

Used by the transactional producer, by group members and by admin. The coordinator is looked up when
first needed, and again after an answer that says it is another broker now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
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
) -> T:
    """One attempt; what it raises tells whether another one may help.

    `purpose` keeps requests apart that may wait long: a join must not stand before the heartbeat of
    another member.
    """
    try:
        return await ask(await cluster.coordinator_connection(kind, key, purpose))
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
    """Ask until it succeeds, fails for good or the time is over."""
    return await cluster.retry(
        lambda: ask_coordinator_once(cluster, kind, key, ask, purpose=purpose),
        timeout_ms=timeout_ms,
        what=what,
    )
