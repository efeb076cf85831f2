"""All that one API in one version needs, looked up once: decode, handle, encode.

Made by `apis.dispatch` when the first request of its kind comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from floodmark.apis.context import RequestContext
from floodmark.network.request_channel import Outcome, Parked, Response
from floodmark.promise import Promise
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import Encoder

_FETCH = ApiKey.FETCH

Handle: TypeAlias = Callable[[RequestContext, Any], Any]
Remember: TypeAlias = "Callable[[RequestContext, Route, memoryview, Any, Any], None]"


class Route(NamedTuple):
    api_key: ApiKey
    version: int
    handle: Handle
    decode: Callable[[memoryview, int], tuple[Any, int]]
    encode: Encoder
    response_class: type[Any]
    encode_header: Callable[[int], bytes]
    remember: Remember | None = None
    """What an API does with a request that it has handled, to be quicker with the next."""

    def answer(self, correlation_id: int, message: Any) -> Response:
        """Only Fetch answers with pieces of files. What is ready to be sent passes, and None, which
        stands for no answer."""
        if message is None or isinstance(message, (bytes, list)):
            return message
        parts: list[Any] = [self.encode_header(correlation_id)]
        self.encode(message, parts)
        return parts if self.api_key is _FETCH else b"".join(parts)

    def outcome(self, correlation_id: int, result: Any) -> Outcome:
        """What a handler has returned, for the request channel."""
        if result is None or isinstance(result, (self.response_class, bytes, list)):
            return self.answer(correlation_id, result)
        if isinstance(result, (Promise, asyncio.Future)):
            return Parked(result, partial(self.answer, correlation_id))
        return self._finish(correlation_id, result)

    async def _finish(self, correlation_id: int, work: Coroutine[Any, Any, Any]) -> Response:
        return self.answer(correlation_id, await work)
