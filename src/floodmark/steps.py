"""Long work in short steps, so that one thread can do other things in between. PURE.

The work is a generator. It yields None where others may run, or a function that computes without
Python's lock (a compressor) and is better called in a thread; what it returns is sent back in, and
what it raises ends the work. `finish` runs all of it at once. `begin` tries for a short time, which
is enough for most batches; a shell goes on with the rest (`apis.slices`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Aside: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Aside | None, Any, T]


class Unfinished(NamedTuple, Generic[T]):
    """Work that has begun; `aside` is what it waits for, if it waits."""

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
    """Its result if it is done within the budget and needs no thread. Without a budget nothing is
    begun."""
    end_ms = now_ms() + budget_ms
    aside: Aside | None = None
    while aside is None and now_ms() < end_ms:
        try:
            aside = next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
    return Unfinished(steps, aside)
