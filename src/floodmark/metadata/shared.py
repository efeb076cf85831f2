"""The store of several brokers on one machine, without ZooKeeper: one shared SQLite file.

Created by broker/. A session ends with its process, or when the process is paused for too long
(`session_file.py`). Changes by others are noticed within a twentieth of a second
(`session_keeper.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from floodmark.clock import Clock
from floodmark.metadata.session_keeper import SessionKeeper
from floodmark.metadata.shared_table import Changes, SharedTable
from floodmark.metadata.store import (
    Operation,
    Outcome,
    SessionEvent,
    SessionLost,
    SessionWatcher,
)
from floodmark.metadata.table_store import TableStore


class SharedStore(TableStore[SharedTable]):
    def __init__(self, file: Path, clock: Clock, session_timeout_ms: int) -> None:
        super().__init__(str(file), self._close)
        self._file = file
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._keeper: SessionKeeper | None = None
        self._session_watchers: list[SessionWatcher] = []

    async def open(self) -> None:
        if self._keeper is not None:
            return
        loop = asyncio.get_running_loop()

        def on_changes(changes: Changes) -> None:
            loop.call_soon_threadsafe(self._changed, changes)

        def on_session(event: SessionEvent) -> None:
            loop.call_soon_threadsafe(self._session_changed, event)

        def begin() -> None:
            if self._table is None:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._table = SharedTable(str(self._file))
            self._keeper = SessionKeeper(
                self._file, self._clock, self._session_timeout_ms, on_changes, on_session
            )

        await self._run(begin)

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        keeper = self._keeper
        if keeper is None:
            raise SessionLost()
        outcomes, _ = await self._run(self._opened().multi, operations, keeper.session)
        keeper.look_now()
        return outcomes

    def watch_session(self, watcher: SessionWatcher) -> None:
        self._session_watchers.append(watcher)

    def _changed(self, changes: Changes) -> None:
        if changes.is_complete:
            self._watches.fire(changes.events)
        else:
            self._watches.fire_all()

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.LOST:
            self._keeper = None
        for watcher in self._session_watchers:
            watcher(event)

    def _close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.stop()
        self._opened().close()
