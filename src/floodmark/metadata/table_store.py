"""The common base of both SQLite stores: a table used by one thread, because commits sync the disk.

`embedded.py` is the store of one broker, `shared.py` the one of several on one machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, ParamSpec, TypeVar

from floodmark.metadata.node_table import NodeTable
from floodmark.metadata.store import Node, StoreUnavailable, Watcher
from floodmark.metadata.watches import Watches

P = ParamSpec("P")
R = TypeVar("R")
Table = TypeVar("Table", bound=NodeTable)


class TableStore(Generic[Table]):
    multi_limit_bytes: int | None = None
    watches_below = True

    def __init__(self, name: str, end_session: Callable[[], None]) -> None:
        """`name` is for messages; `end_session` also closes the table, on the store's thread."""
        self._name = name
        self._end_session = end_session
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="floodmark-metadata")
        self._table: Table | None = None
        self._watches = Watches()

    async def get(self, path: str) -> Node | None:
        return await self._run(self._opened().get, path)

    async def children(self, path: str) -> list[str]:
        return await self._run(self._opened().children, path)

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        return await self._run(self._opened().read_tree, path)

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        return self._watches.add(path, watcher)

    async def synchronize(self) -> None:
        """Does nothing: there is only one file."""

    async def close(self) -> None:
        if self._table is not None:
            await self._run(self._end_session)
            self._table = None
        self._thread.shutdown(wait=False)

    def _opened(self) -> Table:
        if self._table is None:
            raise StoreUnavailable(self._name, "the store is not open")
        return self._table

    async def _run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))
