"""The gates between a decoded request and its handler, and between a response and its client.

`apis.dispatch` runs them in one order: authenticate, decode, authorize, handle, throttle.
Unauthenticated clients may use only the APIs of `BEFORE_AUTHENTICATION`. `handle_guarded`
authorizes a request and handles the allowed part, as the API's `ACCESS` declares. `apis.route`
applies `throttled` to responses.
"""

from __future__ import annotations

from copy import copy
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from floodmark.apis.access import Each, exists_in, parents
from floodmark.apis.authorizer import DENIED, Guard
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import after
from floodmark.apis.error_answers import error_answer, error_entry
from floodmark.network.request_channel import CloseConnection, Response, Throttled
from floodmark.network.transfer import Answer
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import schema_of

if TYPE_CHECKING:
    from floodmark.apis.route import Route

BEFORE_AUTHENTICATION = frozenset(
    int(key) for key in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
)
"""The APIs that a client may use before it has authenticated."""

_INT32 = Struct(">i")


# Authorize


class _Refused(NamedTuple):
    """The refusals of one list, for each part of the response that contains it."""

    each: Each
    entries: list[list[object]]
    none_left: bool


def handle_guarded(route: Route, context: RequestContext, guard: Guard, request: object) -> Any:
    """Handles the allowed parts of a request."""
    access, version = route.access, route.version
    for need in access.needs:
        if exists_in(need.versions, version) and not need.is_met(context, guard, request):
            _refuse_unanswered(route, request)
            return error_answer(
                route.api_key,
                version,
                request,
                DENIED[need.kind],
                only_at_the_top=need.only_at_the_top,
            )
    # Copy, because the dispatcher may prepare the original request.
    request = copy(request) if access.each else request
    refused = [
        refusals
        for each in access.each
        if exists_in(each.versions, version)
        and (refusals := _take_denied(route, context, guard, request, each)) is not None
    ]

    def finish(response: object) -> object:
        if refused:
            _refuse_unanswered(route, request)
        for step in access.answer:
            step.apply(context, guard, response)
        return _merged(response, refused)

    if any(one.none_left and not one.each.handles_none for one in refused):
        return finish(route.response_class())
    result = route.handle(context, request)
    if not refused and not access.answer:
        return result
    return after(result, finish)


def _refuse_unanswered(route: Route, request: object) -> None:
    """A client that expects no response learns of a refusal by a closed connection, as in Kafka."""
    if not route.access.is_answered(request):
        raise CloseConnection(f"a {route.api_key.name} without a response was denied")


def _take_denied(
    route: Route, context: RequestContext, guard: Guard, request: object, each: Each
) -> _Refused | None:
    """Removes denied items from the request. Returns the refusals, or None if all are allowed."""
    if each.within is not None:
        setattr(request, each.within, [copy(part) for part in getattr(request, each.within)])
    cls = _entry_class(route.response_class, each)
    entries: list[list[object]] = []
    is_left = False
    for part in parents(request, each.within):
        items = getattr(part, each.items)
        denied = each.denied(context, guard, request, items)
        if denied:
            taken = {id(item) for item in denied}
            setattr(part, each.items, [item for item in items if id(item) not in taken])
        entries.append([_entry(route, context, guard, each, cls, item) for item in denied])
        if denied and each.others is not None:
            for item in getattr(part, each.items):
                entries[-1].append(
                    error_entry(route.api_key, route.version, cls, item, each.others)
                )
            setattr(part, each.items, [])
        is_left = is_left or bool(getattr(part, each.items)) or each.within is not None
    return _Refused(each, entries, not is_left) if any(entries) else None


def _entry_class(response_class: type, each: Each) -> type:
    parent = response_class
    for name in (each.within, each.answers):
        if name is not None:
            parent = next(f.element for f in schema_of(parent).fields if f.name == name)
    return parent


def _entry(
    route: Route, context: RequestContext, guard: Guard, each: Each, cls: type, item: object
) -> object:
    is_unknown = each.is_unknown(context, item)
    error_code = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown else DENIED[each.kind]
    text = error_code.message if each.text == "" else each.text
    entry = error_entry(route.api_key, route.version, cls, item, error_code, text)
    if each.amend is not None:
        each.amend(context, guard, item, entry)
    return entry


def _merged(response: object, refused: list[_Refused]) -> object:
    """Appends the refusals to the response's lists. A top-level error of the handler covers all."""
    # In reverse order, because each removal refers to what was left at that point.
    for each, entries, none_left in reversed(refused):
        for part, of_part in zip(parents(response, each.within), entries, strict=True):
            if not getattr(part, "error_code", 0):
                answered = [] if none_left else getattr(part, each.answers)
                setattr(part, each.answers, [*answered, *of_part])
    return response


# Throttle


def throttled(
    route: Route, context: RequestContext, message: Any, answer: Answer | None
) -> Response:
    """The response, with a throttle time if its client is throttled.

    The network layer mutes the connection after it has sent the response (KIP-219).
    """
    throttle_ms = context.throttle_ms
    if not context.is_counted:
        throttle_ms = max(throttle_ms, throttle_time(context, answer))
    if throttle_ms <= 0:
        return answer
    if answer is None:
        return Throttled(None, throttle_ms)
    if hasattr(message, "throttle_time_ms"):
        message = copy(message)
        message.throttle_time_ms = max(message.throttle_time_ms, throttle_ms)
        answer = route.encoded(context.header.correlation_id, message)
    return Throttled(answer, throttle_ms)


def throttle_time(context: RequestContext, answer: Answer | None) -> int:
    """Counts a request against the quotas. Returns how long to mute its connection."""
    return context.services.quotas.throttle_ms(context.usage(_size_bytes(answer)))


def with_throttle_time(answer: Answer, position: int, throttle_ms: int) -> Throttled:
    """A response from a template, with this throttle time instead of 0."""
    if isinstance(answer, list):
        first, *rest = answer
        assert isinstance(first, bytes), "templates start with bytes"
        return Throttled([_patched(first, position, throttle_ms), *rest], throttle_ms)
    return Throttled(_patched(answer, position, throttle_ms), throttle_ms)


def _patched(data: bytes, position: int, throttle_ms: int) -> bytes:
    return data[:position] + _INT32.pack(throttle_ms) + data[position + _INT32.size :]


def _size_bytes(answer: Answer | None) -> int:
    if isinstance(answer, list):
        return sum(map(len, answer))
    return 0 if answer is None else len(answer)
