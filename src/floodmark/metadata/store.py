"""PORT: where the cluster's metadata is kept. It has the shape of ZooKeeper, because a cluster uses
it.

Nodes have a path, data and a version that counts their changes. `multi` does all of its operations
or none. An ephemeral node lives as long as the session that made it. Implemented by `embedded.py`
(SQLite, one broker), `shared.py` (SQLite, several brokers on one machine), `zookeeper_store.py`
(ZooKeeper, several machines) and `testing/memory_store.py`; used by the controller's shell and the
loader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1
# Digits of the number that a sequence node's name ends in, as ZooKeeper writes it.
SEQUENCE_DIGITS = 10


class Node(NamedTuple):
    """`created_zxid` is the number of the transaction that made the node: a broker's epoch."""

    data: bytes
    version: int
    created_zxid: int
    is_ephemeral: bool


class Check(NamedTuple):
    """Do nothing, but let the whole multi fail when the node has another version."""

    path: str
    version: int


class Create(NamedTuple):
    """A sequence node gets a number of ten digits, higher than all before, after its path."""

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
"""Of one operation in ZooKeeper's protocol, beside path and data: headers, flags, access list."""


def operation_bytes(operation: Operation) -> int:
    """How much an operation counts against `Store.multi_limit_bytes`."""
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
    """What happens to a session. After LOST, `open` begins a new one."""

    SUSPENDED = "suspended"  # no contact: nobody knows whether it still lives
    RESUMED = "resumed"
    LOST = "lost"


SessionWatcher = Callable[[SessionEvent], None]


class StoreError(Exception):
    """An operation was refused; `path` says where. None of its multi was done."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        # For clients: the path may be that of a file of ours.
        self.message = message


class NoNode(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "no such node")


class NodeExists(StoreError):
    def __init__(self, path: str) -> None:
        super().__init__(path, "the node exists already")


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
    """The store itself failed (a full disk, a lost connection): the outcome is not known."""


class SessionLost(StoreError):
    """The session is over, and with it the ephemeral nodes. Nothing was done."""

    def __init__(self) -> None:
        super().__init__("/", "the session with the metadata store has ended")


class Store(Protocol):
    multi_limit_bytes: int | None
    """How large a multi may be, by `operation_bytes`; None when it does not matter."""

    watches_below: bool
    """Whether a watch tells of changes below the children of its path, too."""

    async def open(self) -> None:
        """Begin a session; also after the one before was lost."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes go."""

    async def get(self, path: str) -> Node | None:
        """The node, or None."""

    async def children(self, path: str) -> list[str]:
        """The last parts of the paths below, in order; empty for a node that is not there."""

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        """The node and all below it, by path and in the order of paths."""

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        """All or none, on disk when it returns. Raises a StoreError."""

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` on the loop when the node changes, comes or goes, and when children of it
        come or go, until the function that is returned is called. A store may tell of more, and
        tells of a change when it cannot say whether there was one.
        """

    async def synchronize(self) -> None:
        """What others wrote before this call is seen by the reads that follow it."""

    def watch_session(self, watcher: SessionWatcher) -> None:
        """Call `watcher` on the loop for what happens to the session."""
