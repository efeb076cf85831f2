"""A simulated broker's timers and threads: `replication.background` driven by the schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from floodmark.storage.errors import StorageError
from floodmark.testing.virtual_clock import VirtualClock

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class SimulatedTimer:
    due_ms: float
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        self.callback = None


class SimulatedBackground:
    """Threaded work takes two steps: it completes, and later the loop is notified."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._timers: list[SimulatedTimer] = []
        self._waiting: list[Callable[[], Callable[[], None]]] = []
        self._ended: list[Callable[[], None]] = []

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._ended

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> SimulatedTimer:
        timer = SimulatedTimer(self._clock.monotonic_ms() + delay_ms, callback)
        self._timers.append(timer)
        return timer

    def run(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[StorageError | OSError], None],
    ) -> None:
        def at_work() -> Callable[[], None]:
            try:
                outcome = work()
            except (StorageError, OSError) as problem:
                why = problem
                return lambda: failed(why)
            return lambda: done(outcome)

        self._waiting.append(at_work)

    async def drain(self) -> None:
        self.finish()

    def tick(self) -> None:
        """Runs the callbacks that are due."""
        now_ms = self._clock.monotonic_ms()
        due = [timer for timer in self._timers if timer.due_ms <= now_ms]
        if due or any(timer.callback is None for timer in self._timers):
            self._timers = [t for t in self._timers if t.due_ms > now_ms and t.callback is not None]
        for timer in due:
            if timer.callback is not None:
                timer.callback()

    def progress(self, random: Random) -> None:
        """Completes some threaded work, or notifies the loop of completed work."""
        if self._ended and (not self._waiting or random.random() < 0.5):
            self._ended.pop(0)()
        elif self._waiting:
            self._ended.append(self._waiting.pop(0)())

    def finish(self) -> None:
        """Completes all work, as on a fast, idle disk."""
        while not self.is_idle:
            if self._waiting:
                self._ended.append(self._waiting.pop(0)())
            else:
                self._ended.pop(0)()
