"""What an API asks of the authorizer: each handler module declares it as `ACCESS`.

`apis.gate` reads the declaration; docs/compatibility.md lists it. Three things can happen:

- `Needs`: without it the whole request is refused;
- `Each`: of the things a request lists, those that are denied are refused, the others are handled;
- `Hides` and its kin change the answer, for what a client may not know of.

An API that only brokers use is `ACCESS = cluster(Operation.CLUSTER_ACTION)`.

Declarations are never changed. They are not frozen and have no repr, because writing those methods
would take milliseconds of each start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from floodmark.apis.authorized_operations import NOT_REQUESTED, operations_on
from floodmark.apis.authorizer import THE_CLUSTER, Guard, Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import ZERO_UUID, parse_versions

ALL_VERSIONS = "0+"


def topic_name(context: RequestContext, item: Any) -> str | None:
    """The name of a topic that a request names, perhaps by id; None if nobody knows the id."""
    if isinstance(item, str):
        return item
    topic_id = getattr(item, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID:
        return context.services.topic_name(topic_id)
    name: str | None = item.topic if hasattr(item, "topic") else item.name
    return name or None


def itself(context: RequestContext, item: str) -> str:
    """For lists of names."""
    return item


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Needs:
    """Refuses the whole request if any of the resources it names is denied."""

    operation: Operation
    kind: ResourceKind = ResourceKind.CLUSTER
    names: str | Callable[[RequestContext, Any], Iterable[str]] = ""
    """The request's field with the name or names, null for none; or what finds them."""
    or_operation: Operation | None = None
    """Is enough as well, on the same resource."""
    or_any: tuple[Operation, ResourceKind] | None = None
    """Is enough as well, on any resource of a kind."""
    only_at_the_top: bool = False
    """Refused without naming anything, also in versions that have no error code for the whole."""
    versions: str = ALL_VERSIONS

    def is_met(self, context: RequestContext, guard: Guard, request: Any) -> bool:
        return all(
            self._allows(guard, Resource(self.kind, name)) for name in self._names(context, request)
        )

    def _allows(self, guard: Guard, resource: Resource) -> bool:
        if self.or_operation is not None and guard.would_allow(self.or_operation, resource):
            return True
        if self.or_any is not None and guard.allows_any(*self.or_any):
            return True
        return guard.allows(self.operation, resource)

    def _names(self, context: RequestContext, request: Any) -> Iterable[str]:
        if callable(self.names):
            return self.names(context, request)
        if not self.names:
            return (THE_CLUSTER.name,)
        value: str | list[str] | None = getattr(request, self.names)
        if isinstance(value, str):
            return (value,)
        return dict.fromkeys(value or ())

    def describe(self) -> str:
        text = self.operation.name
        if self.or_operation is not None:
            text += f" or {self.or_operation.name}"
        text += f" on {self.kind.name}"
        if self.or_any is not None:
            text += f", or {self.or_any[0].name} on any {self.or_any[1].name}"
        return text


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Each:
    """Refuses what is denied of a list in the request; the answer's list has the refusals."""

    operation: Operation
    kind: ResourceKind
    items: str
    answers: str
    within: str | None = None
    """Both lists are in the entries of this list, which answers keep in order."""
    name: Callable[[RequestContext, Any], str | None] = topic_name
    """The name of an item; None if it names nothing: then the handler answers it."""
    applies: Callable[[RequestContext, Any, Any], bool] = lambda context, request, item: True
    """Whether an item of this request is asked about."""
    or_cluster: Operation | None = None
    """Is enough for all of them, on the cluster."""
    text: str | None = ""
    """What a refusal says: nothing, or the error code's own text where this is empty."""
    amend: Callable[[RequestContext, Guard, Any, Any], None] | None = None
    """Changes the refusal of an item."""
    others: ErrorCode | None = None
    """All or nothing: what else the list has is refused with this."""
    handles_none: bool = False
    """Whether a request of which nothing is left is still handled, for the rest of its answer."""
    versions: str = ALL_VERSIONS

    def denied(self, context: RequestContext, guard: Guard, request: Any, items: Any) -> list[Any]:
        """The items that are refused; each resource is asked about once."""
        named = [(item, self._name(context, request, item)) for item in items or ()]
        names = {name for _, name in named if name is not None}
        if not names or self._is_allowed_everywhere(guard):
            return []
        denied = {
            name for name in names if not guard.allows(self.operation, Resource(self.kind, name))
        }
        return [item for item, name in named if name in denied]

    def _name(self, context: RequestContext, request: Any, item: Any) -> str | None:
        if not self.applies(context, request, item):
            return None
        is_cluster = self.kind is ResourceKind.CLUSTER
        return THE_CLUSTER.name if is_cluster else self.name(context, item)

    def _is_allowed_everywhere(self, guard: Guard) -> bool:
        return self.or_cluster is not None and guard.would_allow(self.or_cluster, THE_CLUSTER)

    def describe(self) -> str:
        if self.kind is ResourceKind.CLUSTER:
            return f"{self.operation.name} on CLUSTER"
        text = f"{self.operation.name} on each {self.kind.name}"
        if self.or_cluster is not None:
            text += f", or {self.or_cluster.name} on CLUSTER"
        return text


class AnswerStep(Protocol):
    def apply(self, context: RequestContext, guard: Guard, response: Any) -> None: ...
    def describe(self) -> str: ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Hides:
    """Leaves out of the answer what the client may not do this to."""

    operation: Operation
    kind: ResourceKind
    items: str
    name: str
    within: str | None = None
    unless_cluster: Operation | None = None

    def apply(self, context: RequestContext, guard: Guard, response: Any) -> None:
        if self.unless_cluster is not None and guard.would_allow(self.unless_cluster, THE_CLUSTER):
            return
        for parent in parents(response, self.within):
            kept = [
                item
                for item in getattr(parent, self.items)
                if self._is_seen(guard, getattr(item, self.name))
            ]
            setattr(parent, self.items, kept)

    def _is_seen(self, guard: Guard, name: str) -> bool:
        """What has no name is what was asked for by an id that nobody knows."""
        return not name or guard.would_allow(self.operation, Resource(self.kind, name))

    def describe(self) -> str:
        text = f"hides each {self.kind.name} without {self.operation.name}"
        if self.unless_cluster is not None:
            text += f", unless {self.unless_cluster.name} on CLUSTER"
        return text


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Tells:
    """Fills in which operations the client may do, where it asked for that."""

    kind: ResourceKind
    field: str
    items: str | None = None
    name: str = ""

    def apply(self, context: RequestContext, guard: Guard, response: Any) -> None:
        for item in parents(response, self.items):
            if getattr(item, self.field) != NOT_REQUESTED:
                setattr(item, self.field, self._operations(guard, item))

    def _operations(self, guard: Guard, item: Any) -> int:
        if self.kind is not ResourceKind.CLUSTER:
            name = getattr(item, self.name)
            return 0 if name is None else operations_on(guard, Resource(self.kind, name))
        if not guard.allows(Operation.DESCRIBE, THE_CLUSTER):
            return 0
        return operations_on(guard, THE_CLUSTER)

    def describe(self) -> str:
        return f"lists the operations allowed on {self.kind.name}"


@dataclass(slots=True, eq=False, repr=False)
class Reviews:
    """A change of the answer that only this API has."""

    text: str
    apply: Callable[[RequestContext, Guard, Any], None]

    def describe(self) -> str:
        return self.text


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Access:
    """All that an API asks, in this order."""

    needs: tuple[Needs, ...] = ()
    each: tuple[Each, ...] = ()
    answer: tuple[AnswerStep, ...] = ()
    inside: tuple[str, ...] = ()
    """What the handler itself asks through its context, in words."""
    is_answered: Callable[[Any], bool] = lambda request: True
    """Whether a request wants an answer; if it does not, a refusal ends the connection."""

    def describe(self) -> str:
        """For people. Versions are named where they do not ask the same."""
        versions: dict[str, list[str]] = {}
        steps: list[Needs | Each] = [*self.needs, *self.each]
        for asked in steps:
            versions.setdefault(asked.describe(), []).append(asked.versions)
        texts = [
            text if len(of_text) > 1 or of_text == [ALL_VERSIONS] else f"{text} (v{of_text[0]})"
            for text, of_text in versions.items()
        ]
        texts += dict.fromkeys(step.describe() for step in self.answer)
        return "; ".join([*texts, *self.inside])


NOTHING = Access()
"""Asks nothing. Only for what a client may do before it has authenticated, or always refuses."""


def cluster(operation: Operation) -> Access:
    """An API that is about the cluster as a whole."""
    return Access(needs=(Needs(operation=operation),))


def group(operation: Operation) -> Needs:
    """Of the one group that a request names."""
    return Needs(operation=operation, kind=ResourceKind.GROUP, names="group_id")


def transactional_id(field: str = "transactional_id", versions: str = ALL_VERSIONS) -> Needs:
    """To write with the transactional id that a request names, if it names one."""
    kind = ResourceKind.TRANSACTIONAL_ID
    return Needs(operation=Operation.WRITE, kind=kind, names=field, versions=versions)


def each_topic(
    operation: Operation, items: str = "topics", answers: str = "topics", **more: Any
) -> Each:
    """Of the topics that a request lists."""
    return Each(operation=operation, kind=ResourceKind.TOPIC, items=items, answers=answers, **more)


def exists_in(versions: str, version: int) -> bool:
    first, last = parse_versions(versions)
    return first <= version <= last


def parents(message: Any, within: str | None) -> list[Any]:
    """The parts of a message that have the list in question."""
    return [message] if within is None else getattr(message, within)
