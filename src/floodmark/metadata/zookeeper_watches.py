"""Persistent watches on ZooKeeper. Its own fire only once and are lost with the connection.

Used by zookeeper_store. A watch covers the node itself (created, changed, deleted) and its list of
children. It is armed before anything is read again, so no change is missed. Changes during a
disconnect are reported as one change of the watched path.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import EventType

from floodmark.metadata.store import EventKind, StoreError, Watcher, WatchEvent
from floodmark.zookeeper.client import NoAnswer

RETRY_S = 0.1

_KINDS = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHANGED,
}

Ask = Callable[..., Awaitable[Any]]


class ZooKeeperWatches:
    def __init__(self, ask: Ask) -> None:
        """`ask` calls a kazoo method by name."""
        self._ask = ask
        self._watched: list[_Watched] = []

    def add(self, path: str, watcher: Watcher) -> Callable[[], None]:
        watched = _Watched(path, watcher, self._ask)
        self._watched.append(watched)
        # Data read before arming may be outdated by then, so the watcher looks once more.
        watched.arm(EventKind.CHANGED)

        def remove() -> None:
            if watched in self._watched:
                self._watched.remove(watched)
                watched.end()

        return remove

    def renew_all(self) -> None:
        """After a new connection, anything may have changed."""
        for watched in self._watched:
            watched.arm(EventKind.CHANGED)

    def close(self) -> None:
        for watched in self._watched:
            watched.end()
        self._watched.clear()


class _Watched:
    def __init__(self, path: str, watcher: Watcher, ask: Ask) -> None:
        self._path = path
        self._watcher = watcher
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._arming: asyncio.Task[None] | None = None
        self._is_ended = False

    def arm(self, event: EventKind) -> None:
        """Arms the watch, then notifies: later changes cannot go unnoticed."""
        if self._arming is not None:
            self._arming.cancel()
        self._arming = self._loop.create_task(self._arm(event))

    def end(self) -> None:
        self._is_ended = True
        if self._arming is not None:
            self._arming.cancel()

    async def _arm(self, event: EventKind) -> None:
        while not await self._is_armed():  # noqa: ASYNC110 - no event tells when to try again
            await asyncio.sleep(RETRY_S)
        self._watcher(WatchEvent(event, self._path))

    async def _is_armed(self) -> bool:
        # Always the same function: kazoo keeps a set, which would grow with each new one.
        try:
            await self._ask("exists_async", self._path, watch=self._fired)
            await self._ask("get_children_async", self._path, watch=self._fired)
        except NoNodeError:
            # Its creation will be reported.
            return True
        except (NoAnswer, StoreError):
            return False
        return True

    def _fired(self, event: Any) -> None:
        """Runs in a kazoo thread."""
        # RuntimeError: the loop ended before kazoo's threads.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._noticed, event.type)

    def _noticed(self, kind: str) -> None:
        """Anything but a change means that the connection is gone; `renew_all` will follow."""
        if kind in _KINDS and not self._is_ended:
            self.arm(_KINDS[kind])
