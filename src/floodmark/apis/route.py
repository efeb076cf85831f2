"""Everything for one API in one version, looked up once: decode, handle, encode.

Created by `apis.dispatch` on the first request of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from floodmark.apis.access import Access
from floodmark.apis.context import RequestContext
from floodmark.apis.farewell import Farewell
from floodmark.apis.gate import throttled
from floodmark.network.request_channel import CloseConnection, Outcome, Response, Waiting, Work
from floodmark.network.transfer import Answer
from floodmark.promise import Promise
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import Decoder, Encoder

_FETCH = ApiKey.FETCH

Handle: TypeAlias = Callable[[RequestContext, Any], Any]


class Route(NamedTuple):
    api_key: ApiKey
    version: int
    handle: Handle
    decode: Decoder[Any]
    encode: Encoder
    response_class: type[Any]
    encode_header: Callable[[int], bytes]
    access: Access
    """What it asks of the authorizer."""
    most_entries: int
    """The maximum number of entries in a request."""
    count_errors: Callable[[Any], None] | None = None
    """Called with every response encoded here."""

    def encoded(self, correlation_id: int, message: Any) -> Answer:
        """Only Fetch responses contain parts of files."""
        parts: list[Any] = [self.encode_header(correlation_id)]
        self.encode(message, parts)
        return parts if self.api_key is _FETCH else b"".join(parts)

    def answer(self, context: RequestContext, message: Any) -> Response:
        """Passes through encoded responses, and None for no response."""
        answer: Answer | None
        if message is None or isinstance(message, (bytes, list)):
            answer = message
        else:
            farewell = message if isinstance(message, Farewell) else None
            message = message if farewell is None else farewell.message
            if self.count_errors is not None:
                self.count_errors(message)
            answer = self.encoded(context.header.correlation_id, message)
            if farewell is not None:
                raise CloseConnection(farewell.reason, answer)
        if context.services.quotas.is_unlimited:
            return answer
        return throttled(self, context, message, answer)

    def outcome(self, context: RequestContext, result: Any) -> Outcome:
        """Converts a handler's result for the request channel."""
        if result is None or isinstance(result, (self.response_class, bytes, list, Farewell)):
            return self.answer(context, result)
        if isinstance(result, Promise):
            return result.map(partial(self.answer, context))
        if isinstance(result, Waiting):
            return Waiting(self._answer_later(context, result.work))
        return self._finish(context, result)

    async def _answer_later(
        self, context: RequestContext, work: Coroutine[Any, Any, Any]
    ) -> Response:
        return self.answer(context, await work)

    async def _finish(self, context: RequestContext, work: Work) -> Outcome:
        return self.outcome(context, await work)
