"""A metadata store without files or threads: deterministic, with the embedded store's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from floodmark.metadata.node_table import NodeTable
from floodmark.metadata.store import (
    Node,
    Operation,
    Outcome,
    SessionWatcher,
    StoreUnavailable,
    Watcher,
)
from floodmark.metadata.watches import Watches


class MemoryStore:
    """`fail_next` fails the next multi like a full disk; `multis` counts the commits.

    The nodes survive `close`, so a test can start a second broker on the same store.
    """

    def __init__(self) -> None:
        self._table = NodeTable(":memory:")
        self._watches = Watches()
        self._session = 0
        self.fail_next = 0
        self.multis = 0
        self.multi_limit_bytes: int | None = None
        self.watches_below = True

    async def synchronize(self) -> None:
        """Does nothing: every read sees every write."""

    async def open(self) -> None:
        self._session = self._table.begin_session()

    async def close(self) -> None:
        self._watches.fire(self._table.end_session(self._session))

    def dispose(self) -> None:
        """Drops all nodes."""
        self._table.close()

    async def get(self, path: str) -> Node | None:
        return self._table.get(path)

    async def children(self, path: str) -> list[str]:
        return self._table.children(path)

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        return self._table.read_tree(path)

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        if self.fail_next:
            self.fail_next -= 1
            raise StoreUnavailable("/", "the test told the store to fail")
        self.multis += 1
        outcomes, events = self._table.multi(operations, self._session)
        self._watches.fire(events)
        return outcomes

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        return self._watches.add(path, watcher)

    def watch_session(self, watcher: SessionWatcher) -> None:
        """Never calls back: the session lives until `close`."""
