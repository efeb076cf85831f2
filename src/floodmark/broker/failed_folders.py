"""Leaves a note for the controller when partitions of this broker go offline or come back.

Created by broker.py in a cluster. The note is Kafka's: a node below `/log_dir_event_notification`.
It names only the broker, which the controller then asks for details
(`controller/lost_replica_watch.py`).
"""

from __future__ import annotations

import asyncio
import logging

from floodmark.metadata import paths
from floodmark.metadata.store import Store, StoreError
from floodmark.occurrences import Occurrences, repeated

logger = logging.getLogger(__name__)

RETRY_S = 0.1


class FailedFolders:
    def __init__(self, broker_id: int, store: Store) -> None:
        self._broker_id = broker_id
        self._store = store
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = Occurrences()

    def changed(self) -> None:
        """Call this when other replicas are offline than before. Simultaneous changes share one
        note."""
        self._news.set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="failed-folders")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._store.multi([paths.log_dir_event(self._broker_id)])
            except StoreError as problem:
                self._tell(problem)
                await asyncio.sleep(RETRY_S)
                self._news.set()

    def _tell(self, problem: StoreError) -> None:
        times = self._failures.worth_telling(str(problem))
        if times:
            text = "could not report offline replicas to the controller%s"
            logger.warning(text + ": %s", repeated(times), problem)
