"""The nodes of a store shared by several local processes, in one SQLite file.

It also holds the live sessions and a journal of changes: SQLite tells a process that another one
has written, and the journal says what. Blocking: `shared.py` runs it on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from floodmark.metadata.node_table import LOCK_TIMEOUT_S, NodeTable
from floodmark.metadata.store import (
    EventKind,
    Operation,
    Outcome,
    SessionLost,
    WatchEvent,
)

JOURNAL_ENTRIES = 20_000
"""A process that lags further behind than this reads everything again. A large commit has 5,000."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS session (id INTEGER PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    path TEXT NOT NULL
);
"""


class Changes(NamedTuple):
    """The changes up to journal entry `last`.

    `is_complete` is False if older entries are gone, so anything may have changed.
    """

    events: list[WatchEvent]
    last: int
    is_complete: bool = True


class SharedTable(NodeTable):
    def __init__(self, database: str, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        super().__init__(database, lock_timeout_s)
        if self._is_new():
            with self._transaction("/"):
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._connection.execute(statement)

    def _is_new(self) -> bool:
        """An existing table opens without a write, so another writer does not delay it."""
        with self._reading("/"):
            (found,) = self._connection.execute(
                "SELECT count(*) FROM sqlite_master WHERE name IN ('session', 'journal')"
            ).fetchone()
        return int(found) < 2

    # -- sessions -------------------------------------------------------------------------------

    def new_session_id(self) -> int:
        with self._transaction("/"):
            return self._next("session")

    def add_session(self, session: int) -> None:
        with self._transaction("/"):
            self._connection.execute("INSERT INTO session VALUES (?)", (session,))

    def sessions(self) -> list[int]:
        with self._reading("/"):
            rows = self._connection.execute("SELECT id FROM session ORDER BY id").fetchall()
        return [session for (session,) in rows]

    def end_session(self, session: int) -> list[WatchEvent]:
        """Also removes its ephemeral nodes. Does nothing if another process already ended it."""
        with self._transaction("/"):
            self._connection.execute("DELETE FROM session WHERE id = ?", (session,))
            rows = self._connection.execute(
                "DELETE FROM node WHERE owner = ? RETURNING path", (session,)
            )
            events = [WatchEvent(EventKind.DELETED, path) for (path,) in rows.fetchall()]
            self._note(events)
        return events

    # -- writing --------------------------------------------------------------------------------

    def multi(
        self, operations: Sequence[Operation], session: int
    ) -> tuple[list[Outcome], list[WatchEvent]]:
        """Refused if the session is over: a process that was paused for long must not write."""
        with self._transaction(operations[0].path if operations else "/"):
            alive = self._connection.execute("SELECT 1 FROM session WHERE id = ?", (session,))
            if alive.fetchone() is None:
                raise SessionLost()
            outcomes, events = self._apply(operations, session)
            self._note(events)
        return outcomes, events

    def found(self, operations: Sequence[Operation]) -> None:
        """Creates the first nodes of a new cluster, which needs no session."""
        with self._transaction("/"):
            self._note(self._apply(operations, 0)[1])

    # -- what others have written ---------------------------------------------------------------

    def data_version(self) -> int:
        """A number that changes when another connection has written. Nearly free."""
        with self._reading("/"):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)

    def last_change(self) -> int:
        with self._reading("/"):
            (last,) = self._connection.execute(
                "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'journal'), 0)"
            ).fetchone()
        return int(last)

    def changes_after(self, number: int) -> Changes:
        with self._reading("/"):
            rows = self._connection.execute(
                "SELECT number, kind, path FROM journal WHERE number > ? ORDER BY number", (number,)
            ).fetchall()
        if not rows:
            return Changes([], number)
        events = [WatchEvent(EventKind(kind), path) for _, kind, path in rows]
        return Changes(events, rows[-1][0], is_complete=rows[0][0] == number + 1)

    def _note(self, events: Sequence[WatchEvent]) -> None:
        if not events:
            return
        self._connection.executemany(
            "INSERT INTO journal (kind, path) VALUES (?, ?)",
            [(event.kind.value, event.path) for event in events],
        )
        self._connection.execute(
            "DELETE FROM journal WHERE number <= (SELECT max(number) FROM journal) - ?",
            (JOURNAL_ENTRIES,),
        )
