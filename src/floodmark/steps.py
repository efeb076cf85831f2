"""Splits long work into short steps, so that the thread can do other things in between. PURE.

The work is a generator. It yields None where others may run. It yields a function that releases
the interpreter lock, such as a compressor, to have it called in a thread: the generator is sent its
result, and ends if it raises. `finish` runs everything at once. `begin` runs for a short time,
which is enough for most batches; `apis.slices` runs the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Aside: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Aside | None, Any, T]


class Unfinished(NamedTuple, Generic[T]):
    """Work in progress. `aside` is the function to call next in a thread, if any."""

    steps: Steps[T]
    aside: Aside | None


def finish(steps: Steps[T]) -> T:
    result: Any = None
    while True:
        try:
            aside = steps.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        result = None if aside is None else aside()


def begin(steps: Steps[T], now_ms: Callable[[], float], budget_ms: float) -> T | Unfinished[T]:
    """The result, if the work finishes within the budget and needs no thread. A budget of 0 starts
    nothing."""
    end_ms = now_ms() + budget_ms
    aside: Aside | None = None
    while aside is None and now_ms() < end_ms:
        try:
            aside = next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
    return Unfinished(steps, aside)
