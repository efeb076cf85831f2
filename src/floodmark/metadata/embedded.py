"""The store of a single broker without ZooKeeper: an SQLite file in the data folder.

Created by broker/. Only one thread uses the file, because a commit syncs the disk and must not
block the loop. The log folder's lock keeps other processes out, so a session lasts as long as the
process. `shared.py` is the store for several brokers on one machine.
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
    """The store's cluster id, or None. For a broker whose log folders have none either."""
    table = NodeTable(database)
    try:
        node = table.get(paths.CLUSTER_ID)
        return None if node is None else paths.decode_cluster_id(node.data)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreUnavailable(paths.CLUSTER_ID, f"it is unreadable: {error!r}") from error
    finally:
        table.close()


class EmbeddedStore(TableStore[NodeTable]):
    def __init__(self, file: Path | str) -> None:
        """A string is what `Files.database` returns for the file."""
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
        """Never calls back: the session lasts as long as this process."""

    def _open(self) -> None:
        table = NodeTable(str(self._file))
        self._session = table.begin_session()
        self._table = table

    def _close(self) -> None:
        table = self._opened()
        try:
            table.end_session(self._session)
        except StoreUnavailable as problem:
            # The disk may be full. The next session ends this one.
            logger.warning("%s", problem)
        finally:
            table.close()
