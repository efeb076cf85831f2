"""Shared code of the group coordinator APIs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from floodmark.apis.access import Access, Each, Reviews, Tells, itself
from floodmark.apis.authorized_operations import ALL_ON_GROUP
from floodmark.apis.authorizer import Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.coordinators.groups.client import Client
from floodmark.network.request_channel import Waiting
from floodmark.promise import Promise

T = TypeVar("T")
A = TypeVar("A")


def client_of(context: RequestContext) -> Client:
    """Formats the client as Kafka does: Java prints an address with a leading slash."""
    client = Client(context.client_id or "", f"/{context.peer.host}", context.api_version)
    guard = context.guard
    if guard is None:
        return client

    def may_describe(topic: str) -> bool:
        return guard.would_allow(Operation.DESCRIBE, Resource(ResourceKind.TOPIC, topic))

    return client._replace(may_describe=may_describe)


def when_all(answers: list[A | Promise[A]], finish: Callable[[list[A]], T]) -> T | Waiting[T]:
    """Calls `finish` with all responses, immediately if none is pending."""
    if any(isinstance(answer, Promise) for answer in answers):
        return Waiting(_wait_for_all(answers, finish))
    return finish([answer for answer in answers if not isinstance(answer, Promise)])


async def _wait_for_all(answers: list[A | Promise[A]], finish: Callable[[list[A]], T]) -> T:
    settled = []
    for answer in answers:
        settled.append(await answer if isinstance(answer, Promise) else answer)
    return finish(settled)


def describing_groups(items: str, *reviews: Reviews) -> Access:
    """The checks of APIs that describe the groups in this list."""
    return Access(
        each=(
            Each(
                operation=Operation.DESCRIBE,
                kind=ResourceKind.GROUP,
                items=items,
                answers="groups",
                name=itself,
                text=None,
            ),
        ),
        answer=(
            Tells(
                kind=ResourceKind.GROUP,
                field="authorized_operations",
                items="groups",
                name="group_id",
            ),
            *reviews,
        ),
    )


class Described(Protocol):
    error_code: int
    authorized_operations: int


def allow_all_operations(described: Sequence[Described]) -> None:
    """Fills in what a client asked for; the gate takes away what it may not do."""
    for group in described:
        if not group.error_code:
            group.authorized_operations = ALL_ON_GROUP


def serves_consumer_protocol(context: RequestContext) -> bool:
    """Whether the broker's settings and the cluster's feature level allow the new protocol.

    The setting is `group.coordinator.rebalance.protocols`.
    """
    features = context.services.image.features.finalized
    is_offered = "consumer" in context.services.groups.surroundings.settings.protocols
    return is_offered and features.get("group.version", 1) >= 1
