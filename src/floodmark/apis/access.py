"""Declares what each API asks of the authorizer: the `ACCESS` of a handler module.

`apis.gate` reads the declaration; docs/compatibility.md lists it. There are three kinds:

- `Needs`: refuses the whole request if denied;
- `Each`: refuses the denied items of a list in the request, and handles the others;
- `Hides` and related classes change the response, to hide what a client may not know.

An API that only brokers use is `ACCESS = cluster(Operation.CLUSTER_ACTION)`.

Declarations are never changed. They are neither frozen nor have a repr, because generating those
methods would add milliseconds to each start.
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


def topic_name(context: RequestContext, item: object) -> str | None:
    """The name of a topic in a request, possibly given by id. None if the id is unknown."""
    if isinstance(item, str):
        return item
    topic_id = getattr(item, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID:
        return context.services.topic_name(topic_id)
    name: str | None = getattr(item, "topic" if hasattr(item, "topic") else "name")
    return name or None


def itself(context: RequestContext, item: str) -> str:
    """The name of an item in a list of plain names."""
    return item


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Needs:
    """Refuses the whole request if any of its resources is denied."""

    operation: Operation
    kind: ResourceKind = ResourceKind.CLUSTER
    names: str | Callable[[RequestContext, Any], Iterable[str]] = ""
    """The request field with the name or names (null for none), or a function that finds them."""
    or_operation: Operation | None = None
    """An alternative that also suffices, on the same resource."""
    or_any: tuple[Operation, ResourceKind] | None = None
    """An alternative that also suffices, on any resource of a kind."""
    only_at_the_top: bool = False
    """Refuses without naming items, even in versions without a top-level error code."""
    versions: str = ALL_VERSIONS

    def is_met(self, context: RequestContext, guard: Guard, request: object) -> bool:
        return all(
            self._allows(guard, Resource(self.kind, name)) for name in self._names(context, request)
        )

    def _allows(self, guard: Guard, resource: Resource) -> bool:
        if self.or_operation is not None and guard.would_allow(self.or_operation, resource):
            return True
        if self.or_any is not None and guard.allows_any(*self.or_any):
            return True
        return guard.allows(self.operation, resource)

    def _names(self, context: RequestContext, request: object) -> Iterable[str]:
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
    """Refuses the denied items of a list in the request, each in the response's list."""

    operation: Operation
    kind: ResourceKind
    items: str
    answers: str
    within: str | None = None
    """Both lists are inside the entries of this list, which responses keep in order."""
    name: Callable[[RequestContext, Any], str | None] = topic_name
    """The name of an item. None if it names nothing: then the handler answers it."""
    applies: Callable[[RequestContext, Any, Any], bool] = lambda context, request, item: True
    """Whether to check an item of this request."""
    or_cluster: Operation | None = None
    """An alternative on the cluster that suffices for all items."""
    text: str | None = ""
    """The text of a refusal: None for no text, empty for the error code's own text."""
    amend: Callable[[RequestContext, Guard, Any, Any], None] | None = None
    """Adjusts the refusal of an item."""
    others: ErrorCode | None = None
    """All or nothing: refuses the other items of the list with this code."""
    handles_none: bool = False
    """Whether to call the handler even if no items are left, for the rest of its response."""
    refuses_unknown_ids: bool = False
    """Refuses topics by an id that this broker does not know: by the time they are handled, here or
    on the controller, the id may be known, and nobody would have checked the name."""
    versions: str = ALL_VERSIONS

    def denied(
        self,
        context: RequestContext,
        guard: Guard,
        request: object,
        items: Iterable[object] | None,
    ) -> list[object]:
        """The refused items. Asks about each resource once."""
        named = [(item, self._name(context, request, item)) for item in items or ()]
        names = {name for _, name in named if name is not None}
        must_be_known = self.refuses_unknown_ids and any(name is None for _, name in named)
        if not (names or must_be_known) or self._is_allowed_everywhere(guard):
            return []
        denied = {
            name for name in names if not guard.allows(self.operation, Resource(self.kind, name))
        }
        return [item for item, name in named if name in denied or self.is_unknown(context, item)]

    def is_unknown(self, context: RequestContext, item: object) -> bool:
        """Whether an item is refused for its id, whatever the client's rights."""
        if not self.refuses_unknown_ids or getattr(item, "topic_id", ZERO_UUID) == ZERO_UUID:
            return False
        return topic_name(context, item) is None

    def _name(self, context: RequestContext, request: object, item: object) -> str | None:
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
    def apply(self, context: RequestContext, guard: Guard, response: object) -> None: ...
    def describe(self) -> str: ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Hides:
    """Omits from the response what the client may not perform this operation on."""

    operation: Operation
    kind: ResourceKind
    items: str
    name: str
    within: str | None = None
    unless_cluster: Operation | None = None

    def apply(self, context: RequestContext, guard: Guard, response: object) -> None:
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
        """An item without a name was requested by an unknown id."""
        return not name or guard.would_allow(self.operation, Resource(self.kind, name))

    def describe(self) -> str:
        text = f"hides each {self.kind.name} without {self.operation.name}"
        if self.unless_cluster is not None:
            text += f", unless {self.unless_cluster.name} on CLUSTER"
        return text


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Tells:
    """Fills in the operations the client may perform, if it asked for them."""

    kind: ResourceKind
    field: str
    items: str | None = None
    name: str = ""

    def apply(self, context: RequestContext, guard: Guard, response: object) -> None:
        for item in parents(response, self.items):
            if getattr(item, self.field) != NOT_REQUESTED:
                setattr(item, self.field, self._operations(guard, item))

    def _operations(self, guard: Guard, item: object) -> int:
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
    """A change to the response that is specific to this API."""

    text: str
    apply: Callable[[RequestContext, Guard, Any], None]

    def describe(self) -> str:
        return self.text


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Access:
    """Everything an API checks, in this order."""

    needs: tuple[Needs, ...] = ()
    each: tuple[Each, ...] = ()
    answer: tuple[AnswerStep, ...] = ()
    inside: tuple[str, ...] = ()
    """Checks that the handler itself makes through its context, in words."""
    is_answered: Callable[[Any], bool] = lambda request: True
    """Whether a request expects a response. If not, a refusal closes the connection."""

    def describe(self) -> str:
        """A description for people. Names versions where their checks differ."""
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
"""Checks nothing. Only for APIs used before authentication, or that always refuse."""


def cluster(operation: Operation) -> Access:
    """For an API about the cluster as a whole."""
    return Access(needs=(Needs(operation=operation),))


def group(operation: Operation) -> Needs:
    """For the one group a request names."""
    return Needs(operation=operation, kind=ResourceKind.GROUP, names="group_id")


def transactional_id(field: str = "transactional_id", versions: str = ALL_VERSIONS) -> Needs:
    """For writing with the transactional id a request names, if any."""
    kind = ResourceKind.TRANSACTIONAL_ID
    return Needs(operation=Operation.WRITE, kind=kind, names=field, versions=versions)


def each_topic(
    operation: Operation, items: str = "topics", answers: str = "topics", **more: Any
) -> Each:
    """For each of the topics a request lists."""
    return Each(operation=operation, kind=ResourceKind.TOPIC, items=items, answers=answers, **more)


def exists_in(versions: str, version: int) -> bool:
    first, last = parse_versions(versions)
    return first <= version <= last


def parents(message: object, within: str | None) -> list[object]:
    """The parts of a message that contain the list in question."""
    return [message] if within is None else getattr(message, within)
