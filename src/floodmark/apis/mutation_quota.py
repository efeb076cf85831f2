"""Limits how fast clients create and delete partitions (KIP-599).

`apis.dispatch` wraps the handlers of the three APIs concerned. Newer versions of each refuse topics
above the quota with THROTTLING_QUOTA_EXCEEDED. Older versions handle all, and the client waits. The
broker that receives a request counts it, even if it forwards the request.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

from floodmark.apis.access import topic_name
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import after
from floodmark.apis.error_answers import error_entry
from floodmark.apis.route import Handle
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import response_class
from floodmark.wire.schema import schema_of

EXCEEDED = "The throttling quota has been exceeded."
_NAMES_ONLY_UNTIL = 5


class _Mutation(NamedTuple):
    """`answers` is the response list with an entry for each topic."""

    strict_since: int
    answers: str


MUTATIONS = {
    ApiKey.CREATE_TOPICS: _Mutation(6, "topics"),
    ApiKey.CREATE_PARTITIONS: _Mutation(3, "results"),
    ApiKey.DELETE_TOPICS: _Mutation(5, "responses"),
}


def limiting(api_key: ApiKey, handle: Handle) -> Handle:
    """Calls `handle` with what the client's quota allows."""

    def handle_limited(context: RequestContext, request: Any) -> Any:
        if context.services.quotas.is_unlimited:
            return handle(context, request)
        return _handle(api_key, handle, context, request)

    return handle_limited


def _handle(api_key: ApiKey, handle: Handle, context: RequestContext, request: Any) -> Any:
    mutation = MUTATIONS[api_key]
    items = _items(api_key, context.api_version)
    is_strict = context.api_version >= mutation.strict_since
    allowed: list[object] = []
    refused: list[object] = []
    throttle_ms = 0
    for item in getattr(request, items):
        partitions = _partitions(api_key, context, item)
        wait_ms = 0 if partitions <= 0 else _take(context, partitions, is_strict)
        throttle_ms = max(throttle_ms, wait_ms)
        (refused if is_strict and wait_ms else allowed).append(item)
    request = copy(request)
    setattr(request, items, allowed)

    def finish(response: Any) -> Any:
        """The throttle time also mutes the connection."""
        answered = getattr(response, mutation.answers)
        cls = next(
            f.element for f in schema_of(type(response)).fields if f.name == mutation.answers
        )
        for item in refused:
            answered.append(
                error_entry(
                    api_key,
                    context.api_version,
                    cls,
                    item,
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                    EXCEEDED,
                )
            )
        response.throttle_time_ms = throttle_ms
        context.throttle_ms = throttle_ms
        return response

    if not throttle_ms:
        return handle(context, request)
    if not allowed:
        return finish(response_class(api_key)())
    return after(handle(context, request), finish)


def _take(context: RequestContext, partitions: int, is_strict: bool) -> int:
    return context.services.quotas.mutation_throttle_ms(
        context.peer.principal, context.client_id, partitions, is_strict=is_strict
    )


def _items(api_key: ApiKey, version: int) -> str:
    is_by_name = api_key is ApiKey.DELETE_TOPICS and version <= _NAMES_ONLY_UNTIL
    return "topic_names" if is_by_name else "topics"


def _partitions(api_key: ApiKey, context: RequestContext, item: Any) -> int:
    """How many partitions a topic's entry changes. 0 if it will be refused anyway."""
    name = topic_name(context, item)
    known = None if name is None else context.services.image.topics.get(name)
    existing = 0 if known is None else len(known.partitions)
    if api_key is ApiKey.DELETE_TOPICS:
        return existing
    if api_key is ApiKey.CREATE_PARTITIONS:
        return int(item.count) - existing if known is not None else 0
    if known is not None:
        return 0
    wanted = len(item.assignments) or int(item.num_partitions)
    return wanted if wanted >= 0 else context.services.config.get_int("num.partitions")
