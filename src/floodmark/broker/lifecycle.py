"""A broker's parts: started in order, stopped in reverse order, whatever fails.

Called by broker.py, which lists the parts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from types import TracebackType

Step = Callable[[], Awaitable[object] | object]


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Part:
    """One start step and one stop step. `stop` runs only if `start` succeeded."""

    start: Step = _nothing
    stop: Step = _nothing


class Lifecycle:
    """Call `start` and `stop` once each."""

    def __init__(self) -> None:
        self._started = AsyncExitStack()
        self.is_clean = True
        """While stopping: whether every part so far stopped without an exception."""

    async def start(self, parts: Iterable[Part]) -> None:
        """Starts the parts one by one. If one fails, stops those before it and raises."""
        async with AsyncExitStack() as started:
            for part in parts:
                await _run(part.start)
                started.push_async_exit(partial(self._stop_part, part))
            self._started = started.pop_all()

    async def stop(self) -> None:
        """Stops all parts, even after a failure, which it raises at the end."""
        await self._started.aclose()

    async def _stop_part(
        self,
        part: Part,
        problem_type: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.is_clean = problem_type is None
        await _run(part.stop)


async def _run(step: Step) -> None:
    outcome = step()
    if isawaitable(outcome):
        await outcome
