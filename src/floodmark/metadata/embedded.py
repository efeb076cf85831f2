"""The store of one broker without ZooKeeper: an SQLite file in the data folder.

Made by broker/. The file is touched by one thread only, because a commit syncs the disk and must
not stop the loop. The log folder's lock keeps other processes out, so a session is the life of this
process; `shared.py` is the store of several brokers on one machine.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from floodmark.metadata import paths
from floodmark.metadata.node_table import NodeTable
from floodmark.metadata.store import (
    Operation,
    Outcome,
    SessionWatcher,
    StoreUnavailable,
)
from floodmark.metadata.table_store import TableStore

logger = logging.getLogger(__name__)

FILE_NAME = "floodmark-metadata.db"


def stored_cluster_id(database: str) -> str | None:
    """Whose store this is, None when it does not say. For a broker whose log folders do not
    either."""
    table = NodeTable(database)
    try:
        node = table.get(paths.CLUSTER_ID)
        return None if node is None else paths.decode_cluster_id(node.data)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreUnavailable(paths.CLUSTER_ID, f"it cannot be read: {error!r}") from error
    finally:
        table.close()


class EmbeddedStore(TableStore[NodeTable]):
    def __init__(self, file: Path | str) -> None:
        """A string is what `Files.database` gives for the file."""
        super().__init__(str(file), self._close)
        self._file = file
        self._session = 0

    async def open(self) -> None:
        await self._run(self._open)

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        outcomes, events = await self._run(self._opened().multi, operations, self._session)
        self._watches.fire(events)
        return outcomes

    def watch_session(self, watcher: SessionWatcher) -> None:
        """Nothing to tell: the session lives as long as this process."""

    def _open(self) -> None:
        table = NodeTable(str(self._file))
        self._session = table.begin_session()
        self._table = table

    def _close(self) -> None:
        table = self._opened()
        try:
            table.end_session(self._session)
        except StoreUnavailable as problem:
            # Perhaps the disk is full. The next session ends this one.
            logger.warning("%s", problem)
        finally:
            table.close()
