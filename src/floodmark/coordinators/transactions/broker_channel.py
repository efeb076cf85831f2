"""What waits to be sent to one other broker: one request in flight, the rest in the next."""

from __future__ import annotations

import asyncio

from floodmark.coordinators.transactions.ports import Cluster


class BrokerChannel:
    """Calls `_send_queued` until nothing is queued. Subclasses own the queue."""

    def __init__(self, broker_id: int, cluster: Cluster) -> None:
        self._broker_id = broker_id
        self._cluster = cluster
        self._task: asyncio.Task[None] | None = None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _is_queue_empty(self) -> bool:
        raise NotImplementedError

    async def _send_queued(self) -> None:
        """Takes from the queue what one request can hold, and settles it."""
        raise NotImplementedError

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            while not self._is_queue_empty():
                await self._send_queued()
        finally:
            self._task = None
