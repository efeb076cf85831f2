"""A thread that keeps a shared store's session alive and reports the changes of other processes.

It has its own thread, because long work on the loop must not end the session. Created by
`shared.py`. Each round renews the lease, ends the sessions of processes that are gone, and reports
what has changed since the last round.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from floodmark.clock import Clock
from floodmark.metadata.node_table import LOCK_TIMEOUT_S
from floodmark.metadata.session_file import SessionFile, is_alive
from floodmark.metadata.shared_table import Changes, SharedTable
from floodmark.metadata.store import SessionEvent, StoreUnavailable

logger = logging.getLogger(__name__)

ROUND_S = 0.05
"""How soon a dead process or another's change is noticed. A round takes about 50 us."""

SESSIONS_FOLDER = "sessions"


class SessionKeeper:
    """`on_changes` and `on_session` are called on the keeper's thread."""

    def __init__(
        self,
        file: Path,
        clock: Clock,
        timeout_ms: int,
        on_changes: Callable[[Changes], None],
        on_session: Callable[[SessionEvent], None],
    ) -> None:
        self._file = file
        self._folder = file.parent / SESSIONS_FOLDER
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._on_changes = on_changes
        self._on_session = on_session
        self._wake = threading.Event()
        self._is_stopping = False
        self._is_suspended = False
        self._data_version = -1
        self._sessions: list[int] = []
        self.session = self._begin()
        self._thread = threading.Thread(target=self._run, name="floodmark-session", daemon=True)
        self._thread.start()

    def look_now(self) -> None:
        """This process has written, so its own watchers need not wait for the next round."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the session and its ephemeral nodes."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join()

    def _begin(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        table = SharedTable(str(self._file))
        try:
            session = table.new_session_id()
            # The file first: a session without one would count as dead.
            self._session_file = SessionFile(self._path(session), self._deadline_ms())
            table.add_session(session)
            self._last_change = table.last_change()
            return session
        finally:
            table.close()

    def _run(self) -> None:
        # A process that was paused in the middle of a write keeps the table locked. The lease is
        # renewed meanwhile, so that brokers do not expel each other.
        lock_timeout_s = min(LOCK_TIMEOUT_S, self._timeout_ms / 4 / 1000)
        table = SharedTable(str(self._file), lock_timeout_s)
        try:
            while not self._is_stopping:
                try:
                    is_over = self._round(table)
                except (StoreUnavailable, OSError) as problem:
                    self._suspend(problem)
                else:
                    if is_over:
                        self._on_session(SessionEvent.LOST)
                        return
                    self._resume()
                self._wake.wait(ROUND_S)
                self._wake.clear()
            table.end_session(self.session)
        except StoreUnavailable as problem:
            # The disk may be full. Others will see the lock released and end the session.
            logger.warning("%s", problem)
        finally:
            self._session_file.release()
            table.close()

    def _round(self, table: SharedTable) -> bool:
        """Whether the session is over, because another process considered this one dead."""
        self._session_file.renew(self._deadline_ms())
        data_version = table.data_version()
        if data_version != self._data_version:
            self._sessions = table.sessions()
            self._pass_on_changes(table)
            self._data_version = data_version
        if self._end_dead_sessions(table):
            self._sessions = table.sessions()
            self._pass_on_changes(table)
        return self.session not in self._sessions

    def _end_dead_sessions(self, table: SharedTable) -> bool:
        now_ms = self._clock.monotonic_ms()
        others = (session for session in self._sessions if session != self.session)
        dead = [session for session in others if not is_alive(self._path(session), now_ms)]
        for session in dead:
            table.end_session(session)
            self._path(session).unlink(missing_ok=True)
        return bool(dead)

    def _pass_on_changes(self, table: SharedTable) -> None:
        changes = table.changes_after(self._last_change)
        self._last_change = changes.last
        if changes.events:
            self._on_changes(changes)

    def _suspend(self, problem: StoreUnavailable | OSError) -> None:
        if not self._is_suspended:
            self._is_suspended = True
            logger.error("could not read the metadata store: %s", problem)
            self._on_session(SessionEvent.SUSPENDED)

    def _resume(self) -> None:
        if self._is_suspended:
            self._is_suspended = False
            self._on_session(SessionEvent.RESUMED)

    def _path(self, session: int) -> Path:
        return self._folder / f"{session}.lock"

    def _deadline_ms(self) -> float:
        return self._clock.monotonic_ms() + self._timeout_ms
