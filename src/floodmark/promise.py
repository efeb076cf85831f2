"""A value that arrives later on the same loop: an answer that waits for an event.

An `asyncio.Future` runs its callbacks one loop turn later. A promise runs them at once, so a
waiting consumer gets a record inside the append. Coroutines can await a promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


class Promise(Generic[T]):
    """Set or failed once, with one consumer.

    A failing conversion does not raise in `set`. It fails the promise, so the consumer gets the
    error.
    """

    __slots__ = ("_convert", "_failed", "_kept", "_problem", "_state", "_value", "on_abandoned")

    def __init__(self) -> None:
        self._state = "open"
        self._value: T
        self._problem: Exception
        self._convert: Callable[[Any], Any] | None = None
        self._kept: Callable[[T], None] | None = None
        self._failed: Callable[[Exception], None] | None = None
        self.on_abandoned: Callable[[], object] | None = None

    def abandon(self) -> None:
        """Nobody waits any more. Notifies the promise's maker through `on_abandoned`."""
        if self._state == "open":
            on_abandoned = self.on_abandoned
            self._end("abandoned")
            if on_abandoned is not None:
                on_abandoned()

    def set(self, value: T) -> None:
        """Does nothing if the promise has already been set, failed or abandoned."""
        if self._state != "open":
            return
        if self._convert is not None:
            try:
                value = self._convert(value)
            except Exception as problem:  # noqa: BLE001 - passed on to the consumer
                self.fail(problem)
                return
        kept, self._value = self._kept, value
        self._end("kept")
        if kept is not None:
            kept(value)

    def fail(self, problem: Exception) -> None:
        if self._state != "open":
            return
        failed, self._problem = self._failed, problem
        self._end("broken")
        if failed is not None:
            failed(problem)

    def _end(self, state: str) -> None:
        """Drops the callbacks, which refer back to the promise. Otherwise every long poll would be
        a reference cycle, and the garbage collector would stop the loop for all of them at once."""
        self._state = state
        self._convert = self._kept = self._failed = self.on_abandoned = None

    def then(self, kept: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Calls one of the two when the promise ends; immediately if it already has."""
        if self._state == "kept":
            kept(self._value)
        elif self._state == "broken":
            failed(self._problem)
        else:
            self._kept, self._failed = kept, failed

    def map(self, convert: Callable[[T], R]) -> Promise[R]:
        """Converts the value before it is delivered. Call it before `then`. Returns itself."""
        mapped = cast("Promise[R]", self)
        before = self._convert
        if self._state == "kept":
            mapped._state = "open"
            mapped._convert = convert
            mapped.set(cast("R", self._value))
        elif before is None:
            self._convert = convert
        else:
            self._convert = lambda value: convert(before(value))
        return mapped

    @property
    def is_kept(self) -> bool:
        return self._state == "kept"

    def now_or_later(self) -> T | Promise[T]:
        """The value if it is already set, otherwise the promise itself."""
        return self._value if self._state == "kept" else self

    def future(self) -> asyncio.Future[T]:
        """An asyncio future for the same value. Cancelling it abandons the promise."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: self.abandon() if done.cancelled() else None)

        def kept(value: T) -> None:
            # The waiter may have been cancelled earlier in this turn of the loop.
            if not future.done():
                future.set_result(value)

        def failed(problem: Exception) -> None:
            if not future.done():
                future.set_exception(problem)

        self.then(kept, failed)
        return future

    def __await__(self) -> Generator[Any, None, T]:
        return self.future().__await__()
