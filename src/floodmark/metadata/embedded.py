"""The store of one broker without ZooKeeper: an SQLite file in the data folder.

Made by broker/. The file is touched by one thread only, because a commit syncs the disk and must
not stop the loop. The log folder's lock keeps other processes out, so a session is the life of this
process; leases for several processes on one machine can be added behind the same interface.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from floodmark.metadata import paths
from floodmark.metadata.node_table import NodeTable
from floodmark.metadata.store import Node, Operation, Outcome, StoreUnavailable, Watcher
from floodmark.metadata.watches import Watches

logger = logging.getLogger(__name__)

FILE_NAME = "floodmark-metadata.db"

P = ParamSpec("P")
R = TypeVar("R")


def stored_cluster_id(file: Path) -> str | None:
    """Whose store this is, None when there is none yet. For a broker whose log folders do not
    say."""
    if not file.exists():
        return None
    table = NodeTable(str(file))
    try:
        node = table.get(paths.CLUSTER_ID)
        return None if node is None else paths.decode_cluster_id(node.data)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreUnavailable(paths.CLUSTER_ID, f"it cannot be read: {error!r}") from error
    finally:
        table.close()


class EmbeddedStore:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="floodmark-metadata")
        self._table: NodeTable | None = None
        self._session = 0
        self._watches = Watches()

    async def open(self) -> None:
        await self._run(self._open)

    async def close(self) -> None:
        if self._table is not None:
            await self._run(self._close)
        self._thread.shutdown(wait=False)

    async def get(self, path: str) -> Node | None:
        return await self._run(self._opened().get, path)

    async def children(self, path: str) -> list[str]:
        return await self._run(self._opened().children, path)

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        return await self._run(self._opened().read_tree, path)

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        outcomes, events = await self._run(self._opened().multi, operations, self._session)
        self._watches.fire(events)
        return outcomes

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        return self._watches.add(path, watcher)

    def _open(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        table = NodeTable(str(self._file))
        self._session = table.begin_session()
        self._table = table

    def _close(self) -> None:
        table, self._table = self._table, None
        if table is not None:
            try:
                table.end_session(self._session)
            except StoreUnavailable as problem:
                # Perhaps the disk is full. The next session ends this one.
                logger.warning("%s", problem)
            finally:
                table.close()

    def _opened(self) -> NodeTable:
        if self._table is None:
            raise StoreUnavailable(str(self._file), "the store is not open")
        return self._table

    async def _run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))
