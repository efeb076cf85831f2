"""What the APIs of the group coordinator share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from floodmark.apis.context import RequestContext
from floodmark.coordinators.groups.client import Client
from floodmark.promise import Promise

T = TypeVar("T")
A = TypeVar("A")


def client_of(context: RequestContext) -> Client:
    """As Kafka writes members down: Java prints an address with a slash in front."""
    return Client(context.client_id or "", f"/{context.peer.host}", context.api_version)


def when_all(
    answers: list[A | Promise[A]], finish: Callable[[list[A]], T]
) -> T | Coroutine[Any, Any, T]:
    """`finish` on all answers: now when none of them is still to come."""
    if any(isinstance(answer, Promise) for answer in answers):
        return _wait_for_all(answers, finish)
    return finish([answer for answer in answers if not isinstance(answer, Promise)])


async def _wait_for_all(answers: list[A | Promise[A]], finish: Callable[[list[A]], T]) -> T:
    settled = []
    for answer in answers:
        settled.append(await answer if isinstance(answer, Promise) else answer)
    return finish(settled)


def serves_consumer_protocol(context: RequestContext) -> bool:
    """Both the operator (`group.coordinator.rebalance.protocols`) and the cluster's feature level
    must allow the new protocol."""
    features = context.services.image.features.finalized
    is_offered = "consumer" in context.services.groups.surroundings.settings.protocols
    return is_offered and features.get("group.version", 1) >= 1
