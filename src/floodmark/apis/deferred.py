"""Deferred responses: turns a service's result into what `handle` may return.

Used by API modules whose service returns a value, a promise, or a coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar, cast, overload

from floodmark.network.request_channel import Waiting
from floodmark.promise import Promise

T = TypeVar("T")
R = TypeVar("R")

Deferred: TypeAlias = (
    "R | Promise[R] | Waiting[R] | Coroutine[Any, Any, R | Promise[R] | Waiting[R]]"
)


@overload
def after(outcome: T | Promise[T], convert: Callable[[T], R]) -> R | Promise[R]: ...


@overload
def after(outcome: T | Awaitable[T | Promise[T]], convert: Callable[[T], R]) -> Deferred[R]: ...


def after(outcome: T | Awaitable[T | Promise[T]], convert: Callable[[T], R]) -> Deferred[R]:
    """`convert` turns the outcome into the response, now or once it is available."""
    if isinstance(outcome, Promise):
        return outcome.map(convert)
    if isinstance(outcome, Waiting):
        return Waiting(_await(outcome.work, convert))
    if isinstance(outcome, Coroutine):
        return _await_any(outcome, convert)
    return convert(cast(T, outcome))


async def _await(outcome: Coroutine[Any, Any, T], convert: Callable[[T], R]) -> R:
    return convert(await outcome)


async def _await_any(outcome: Coroutine[Any, Any, T], convert: Callable[[T], R]) -> Any:
    """Work may end with a result that is deferred again."""
    return after(await outcome, convert)
