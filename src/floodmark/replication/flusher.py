"""Group commit: syncs logs off the loop, one fdatasync for all appends that waited for it.

Used by `replication.replica_manager` when `flush.messages` asks for a sync before the
acknowledgement. While a log is being synced, further appends to it only mark that another sync is
due; the next one covers them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from floodmark.replication.replica import Replica
from floodmark.storage.errors import StorageError


class Flusher:
    def __init__(
        self,
        executor: Executor,
        on_flushed: Callable[[Replica], None],
        on_failed: Callable[[Replica, StorageError | OSError], None],
    ) -> None:
        self._executor = executor
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._running: dict[Replica, asyncio.Task[None]] = {}

    def request(self, replica: Replica) -> None:
        if replica not in self._running:
            task = asyncio.get_running_loop().create_task(self._flush(replica))
            self._running[replica] = task

    async def close(self) -> None:
        await asyncio.gather(*self._running.values())

    async def _flush(self, replica: Replica) -> None:
        loop = asyncio.get_running_loop()
        try:
            while replica.flush_due_offset is not None:
                durable_end = await loop.run_in_executor(self._executor, replica.log.fsync)
                if replica.flush_due_offset <= durable_end:
                    replica.flush_due_offset = None
                replica.core.appended(durable_end)
                self._on_flushed(replica)
        except (StorageError, OSError) as problem:
            self._on_failed(replica, problem)
        finally:
            del self._running[replica]
