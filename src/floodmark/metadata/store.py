"""PORT: the store of the cluster's metadata. Shaped like ZooKeeper, because clusters may use it.

Nodes have a path, data and a version that counts their changes. `multi` performs all of its
operations or none. An ephemeral node lives as long as the session that created it. Implemented by
`embedded.py` (SQLite, one broker), `shared.py` (SQLite, several brokers on one machine),
`zookeeper_store.py` (ZooKeeper, several machines) and `testing/memory_store.py`. Used by the
controller's shell and the loader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1
# Digits of the number at the end of a sequence node's name, as in ZooKeeper.
SEQUENCE_DIGITS = 10


class Node(NamedTuple):
    """`created_zxid` is the transaction that created the node: a broker's epoch."""

    data: bytes
    version: int
    created_zxid: int
    is_ephemeral: bool


class Check(NamedTuple):
    """Changes nothing, but fails the whole multi if the node has another version."""

    path: str
    version: int


class Create(NamedTuple):
    """A sequence node's path gets a ten-digit number appended, higher than all before."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class SetData(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


Operation = Check | Create | SetData | Delete

OPERATION_OVERHEAD_BYTES = 80
"""Size of an operation in ZooKeeper's protocol besides path and data: headers, flags, ACL."""


def operation_bytes(operation: Operation) -> int:
    """An operation's share of `Store.multi_limit_bytes`."""
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return OPERATION_OVERHEAD_BYTES + len(operation.path.encode()) + len(data)


class Outcome(NamedTuple):
    """The path (with its number, for a sequence node) and the version after the operation."""

    path: str
    version: int


class EventKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


class WatchEvent(NamedTuple):
    kind: EventKind
    path: str


Watcher = Callable[[WatchEvent], None]


class SessionEvent(Enum):
    """Session events. After LOST, `open` starts a new session."""

    SUSPENDED = "suspended"  # no contact: its state is unknown
    RESUMED = "resumed"
    LOST = "lost"


SessionWatcher = Callable[[SessionEvent], None]


class StoreError(Exception):
    """An operation was refused, at `path`. Nothing of its multi was applied."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        # For clients, because the path may be a local file.
        self.message = message


class NoNode(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "no such node")


class NodeExists(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node already exists")


class BadVersion(StoreError):
    def __init__(self, path: str, expected: int, found: int) -> None:
        super().__init__(path, f"the node has version {found}, not {expected}")
        self.expected = expected


class NotEmpty(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node has children")


class EphemeralParent(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "an ephemeral node cannot have children")


class StoreUnavailable(StoreError):
    """The store itself failed (a full disk, a lost connection): the outcome is unknown."""


class StoreRefused(StoreUnavailable):
    """The store refused, for example because a right is missing. Retrying is pointless."""


class SessionLost(StoreError):
    """The session and its ephemeral nodes are gone. Nothing was applied."""

    def __init__(self) -> None:
        super().__init__("/", "the session with the metadata store has ended")


class Store(Protocol):
    multi_limit_bytes: int | None
    """The maximum size of a multi, by `operation_bytes`; None if unlimited."""

    watches_below: bool
    """Whether a watch also reports changes below the children of its path."""

    async def open(self) -> None:
        """Starts a session, also after the previous one was lost."""

    async def close(self) -> None:
        """Ends the session and removes its ephemeral nodes."""

    async def get(self, path: str) -> Node | None:
        """The node, or None."""

    async def children(self, path: str) -> list[str]:
        """The last parts of the paths below, in order; empty if the node does not exist."""

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        """The node and everything below it, by path and in path order."""

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All or nothing, on disk when it returns. Raises a StoreError."""

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        """Calls `watcher` on the loop when the node changes, comes or goes, or its children do.

        Returns a function that stops it. A store may report more, and reports a change if in doubt.
        """

    async def synchronize(self) -> None:
        """Makes everything that others wrote before this call visible to later reads."""

    def watch_session(self, watcher: SessionWatcher) -> None:
        """Calls `watcher` on the loop for session events."""
