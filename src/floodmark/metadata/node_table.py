"""ZooKeeper's nodes in an SQLite table, with its rules for paths, versions, ephemerals, sequences.

Blocking. The embedded store runs it on its own thread, the tests' memory store inline.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from floodmark.metadata.store import (
    ANY_VERSION,
    SEQUENCE_DIGITS,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    EventKind,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Outcome,
    SetData,
    StoreUnavailable,
    WatchEvent,
)

SCHEMA_VERSION = 1
LOCK_TIMEOUT_S = 5.0
NOBODY = 0
WRITE_AHEAD_TRIES = 20
"""Each waits for a transaction of another process; all brokers of a machine may start at once."""

_SCHEMA = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    created_zxid INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX node_by_owner ON node (owner) WHERE owner != 0;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('zxid', 0), ('session', 0);
INSERT INTO node VALUES ('/', x'', 0, 0, 0, 0);
"""

# '0' is the character after '/', so this is the range of everything below a path.
_BELOW = "(path >= ? || '/' AND path < ? || '0')"


def _create_private(database: str) -> None:
    """Creates a file that only its owner can read: it holds password hashes and key passwords.

    SQLite gives its other files the same permissions, and says why a file cannot be created. The
    new file is closed before it gets its name: closing a database that this process uses elsewhere
    would end SQLite's locks on it.
    """
    path = Path(database)
    if database.startswith(("file:", ":")) or path.exists():
        return
    import tempfile  # late, because most starts find the file

    with contextlib.suppress(OSError):
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        os.close(descriptor)
        try:
            os.link(temporary, path)
        finally:
            Path(temporary).unlink()


class NodeTable:
    """One connection, to a file or any other SQLite database name.

    Every method is a transaction.
    """

    def __init__(self, database: str, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        """`lock_timeout_s` is how long to wait while another process writes."""
        _create_private(database)
        try:
            # Transactions are started explicitly: the module's own mode would start them lazily.
            self._connection = sqlite3.connect(
                database, timeout=lock_timeout_s, isolation_level=None, uri=True
            )
        except sqlite3.Error as error:
            raise StoreUnavailable(database, f"could not open the file: {error}") from error
        try:
            # An acknowledged commit must survive a power cut, so the write-ahead log is synced.
            self._use_write_ahead_log()
            self._connection.execute("PRAGMA synchronous=FULL")
            self._prepare_schema(database)
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise StoreUnavailable(database, f"could not use the file: {error}") from error
            raise

    def _use_write_ahead_log(self) -> None:
        """SQLite refuses this at once while another process prepares the same new file."""
        for tries_left in reversed(range(WRITE_AHEAD_TRIES)):
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not tries_left:
                    raise
            # Unlike the switch, a transaction waits until the other one has ended.
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("ROLLBACK")

    def _prepare_schema(self, database: str) -> None:
        version = self._schema_version()
        if version == 0:
            version = self._make_schema(database)
        if version != SCHEMA_VERSION:
            raise StoreUnavailable(
                database,
                f"the file has format {version} and this version of Floodmark reads format "
                f"{SCHEMA_VERSION}; use the version that wrote it",
            )

    def _make_schema(self, database: str) -> int:
        """Creates the schema in a new file, unless another broker does so at the same time."""
        with self._transaction(database):
            if self._schema_version() == 0:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
            return self._schema_version()

    def _schema_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        return int(version)

    def close(self) -> None:
        self._connection.close()

    # -- sessions -------------------------------------------------------------------------------

    def begin_session(self) -> int:
        """Starts a session. There is only one process, so older sessions are dead."""
        with self._transaction("/"):
            self._connection.execute("DELETE FROM node WHERE owner != 0")
            return self._next("session")

    def end_session(self, session: int) -> list[WatchEvent]:
        with self._transaction("/"):
            rows = self._connection.execute(
                "DELETE FROM node WHERE owner = ? RETURNING path", (session,)
            )
            return [WatchEvent(EventKind.DELETED, path) for (path,) in rows.fetchall()]

    # -- reading --------------------------------------------------------------------------------

    def get(self, path: str) -> Node | None:
        with self._reading(path):
            row = self._connection.execute(
                "SELECT data, version, created_zxid, owner != 0 FROM node WHERE path = ?", (path,)
            ).fetchone()
        return None if row is None else Node(row[0], row[1], row[2], bool(row[3]))

    def children(self, path: str) -> list[str]:
        prefix = "" if path == "/" else path
        with self._reading(path):
            rows = self._connection.execute(
                f"SELECT substr(path, ?) AS name FROM node WHERE {_BELOW} AND name != '' AND "
                "instr(name, '/') = 0 ORDER BY name",
                (len(prefix) + 2, prefix, prefix),
            ).fetchall()
        return [name for (name,) in rows]

    def read_tree(self, path: str) -> dict[str, Node]:
        prefix = "" if path == "/" else path
        with self._reading(path):
            rows = self._connection.execute(
                "SELECT path, data, version, created_zxid, owner != 0 FROM node WHERE path = ? "
                f"OR {_BELOW} ORDER BY path",
                (path, prefix, prefix),
            ).fetchall()
        return {row[0]: Node(row[1], row[2], row[3], bool(row[4])) for row in rows}

    # -- writing --------------------------------------------------------------------------------

    def multi(
        self, operations: Sequence[Operation], session: int
    ) -> tuple[list[Outcome], list[WatchEvent]]:
        """All or nothing. Also returns the events for watchers."""
        with self._transaction(operations[0].path if operations else "/"):
            return self._apply(operations, session)

    def _apply(
        self, operations: Sequence[Operation], session: int
    ) -> tuple[list[Outcome], list[WatchEvent]]:
        """Runs inside a transaction."""
        outcomes: list[Outcome] = []
        events: list[WatchEvent] = []
        # Parents known to exist: a topic with a thousand partitions has few of them.
        parents: set[str] = set()
        zxid = self._next("zxid")
        for operation in operations:
            if isinstance(operation, Create):
                outcome = self._create(operation, session, zxid, parents)
                events.append(WatchEvent(EventKind.CREATED, outcome.path))
            elif isinstance(operation, SetData):
                outcome = self._set(operation)
                events.append(WatchEvent(EventKind.CHANGED, outcome.path))
            elif isinstance(operation, Delete):
                outcome = self._delete(operation, parents)
                events.append(WatchEvent(EventKind.DELETED, outcome.path))
            else:
                outcome = Outcome(operation.path, self._check(operation))
            outcomes.append(outcome)
        return outcomes, events

    def _create(self, operation: Create, session: int, zxid: int, parents: set[str]) -> Outcome:
        path = operation.path
        parent = path.rpartition("/")[0] or "/"
        if parent not in parents:
            self._check_parent(parent)
            parents.add(parent)
        if operation.sequence:
            path += self._next_sequence(parent)
        owner = session if operation.ephemeral else NOBODY
        try:
            self._connection.execute(
                "INSERT INTO node VALUES (?, ?, 0, ?, ?, 0)", (path, operation.data, zxid, owner)
            )
        except sqlite3.IntegrityError as error:
            raise NodeExists(path) from error
        return Outcome(path, 0)

    def _check_parent(self, parent: str) -> None:
        row = self._connection.execute(
            "SELECT owner FROM node WHERE path = ?", (parent,)
        ).fetchone()
        if row is None:
            raise NoNode(parent)
        if row[0] != NOBODY:
            raise EphemeralParent(parent)

    def _next_sequence(self, parent: str) -> str:
        row = self._connection.execute(
            "UPDATE node SET next_sequence = next_sequence + 1 WHERE path = ? RETURNING "
            "next_sequence - 1",
            (parent,),
        ).fetchone()
        return f"{row[0]:0{SEQUENCE_DIGITS}d}"

    def _set(self, operation: SetData) -> Outcome:
        if operation.version == ANY_VERSION:
            version = self._check(Check(operation.path, ANY_VERSION))
        else:
            version = operation.version
        changed = self._connection.execute(
            "UPDATE node SET data = ?, version = version + 1 WHERE path = ? AND version = ?",
            (operation.data, operation.path, version),
        )
        if changed.rowcount == 0:
            self._check(Check(operation.path, version))
        return Outcome(operation.path, version + 1)

    def _delete(self, operation: Delete, parents: set[str]) -> Outcome:
        version = self._check(Check(operation.path, operation.version))
        deleted = self._connection.execute(
            f"DELETE FROM node WHERE path = ? AND NOT EXISTS (SELECT 1 FROM node WHERE {_BELOW})",
            (operation.path, operation.path, operation.path),
        )
        if deleted.rowcount == 0:
            raise NotEmpty(operation.path)
        parents.discard(operation.path)
        return Outcome(operation.path, version)

    def _check(self, operation: Check) -> int:
        row = self._connection.execute(
            "SELECT version FROM node WHERE path = ?", (operation.path,)
        ).fetchone()
        if row is None:
            raise NoNode(operation.path)
        found: int = row[0]
        if operation.version not in (ANY_VERSION, found):
            raise BadVersion(operation.path, operation.version, found)
        return found

    def _next(self, counter: str) -> int:
        row = self._connection.execute(
            "UPDATE counter SET value = value + 1 WHERE name = ? RETURNING value", (counter,)
        ).fetchone()
        number: int = row[0]
        return number

    @contextmanager
    def _transaction(self, path: str) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                why = f"could not write the metadata file: {error}"
                raise StoreUnavailable(path, why) from error
            raise

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(path, f"could not read the metadata file: {error}") from error
