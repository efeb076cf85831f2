"""Answers that may come later: turns what a service returned into what `handle` may return.

Used by API modules whose service answers at once, with a future, or with a coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar, cast, overload

T = TypeVar("T")
R = TypeVar("R")

Later: TypeAlias = "R | asyncio.Future[R] | Coroutine[Any, Any, R]"


@overload
def later(outcome: T | asyncio.Future[T], convert: Callable[[T], R]) -> R | asyncio.Future[R]: ...


@overload
def later(outcome: T | Awaitable[T], convert: Callable[[T], R]) -> Later[R]: ...


def later(outcome: T | Awaitable[T], convert: Callable[[T], R]) -> Later[R]:
    """`convert` makes the response of the outcome, now or when it is there."""
    if isinstance(outcome, asyncio.Future):
        return _chain(outcome, convert)
    if asyncio.iscoroutine(outcome):
        return _await(outcome, convert)
    return convert(cast(T, outcome))


def _chain(outcome: asyncio.Future[T], convert: Callable[[T], R]) -> asyncio.Future[R]:
    response: asyncio.Future[R] = outcome.get_loop().create_future()

    def done(finished: asyncio.Future[T]) -> None:
        if response.done():
            return
        if finished.cancelled():
            response.cancel()
        elif (problem := finished.exception()) is not None:
            response.set_exception(problem)
        else:
            try:
                response.set_result(convert(finished.result()))
            except Exception as failure:  # noqa: BLE001 - passed on to who waits for the answer
                response.set_exception(failure)

    outcome.add_done_callback(done)
    return response


async def _await(outcome: Coroutine[Any, Any, T], convert: Callable[[T], R]) -> R:
    return convert(await outcome)
