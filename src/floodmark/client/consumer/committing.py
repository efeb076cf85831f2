"""Commits of a consumer: when asked, from time to time, and before partitions go to others.

Belongs to `consumer.py`. Commits go out in the order in which they were asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import GroupMetadata, Offsets, commit_offsets
from floodmark.client.errors import KafkaError
from floodmark.client.settings import ConsumerSettings

logger = logging.getLogger(__name__)


class Committer:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        *,
        group: Callable[[], GroupMetadata],
        positions: Callable[[], Mapping[TopicPartition, int]],
        on_refused: Callable[[KafkaError], None],
    ) -> None:
        """`positions` are what an automatic commit stores; `on_refused` hears of every failure."""
        self._cluster = cluster
        self._settings = settings
        self._group = group
        self._positions = positions
        self._on_refused = on_refused
        self._in_order = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._automatic: asyncio.Task[None] | None = None
        self._next_ms = cluster.clock.monotonic_ms() + settings.auto_commit_interval_ms

    async def commit(self, offsets: Offsets | None = None) -> None:
        """Store these offsets, or the positions of all partitions, and wait until it is done."""
        wanted = dict(self._positions() if offsets is None else offsets)
        async with self._in_order:
            if not wanted:
                return
            try:
                await commit_offsets(self._cluster, self._group(), wanted)
            except KafkaError as error:
                self._on_refused(error)
                raise

    def commit_nowait(self, offsets: Offsets | None = None) -> asyncio.Task[None]:
        """The same in the background; await the task or look at it later."""
        wanted = dict(self._positions() if offsets is None else offsets)
        task = asyncio.create_task(self.commit(wanted))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def commit_if_due(self, now_ms: float) -> None:
        """The automatic commit of what earlier polls gave; one at a time."""
        if not self._settings.enable_auto_commit or now_ms < self._next_ms:
            return
        if self._automatic is None or self._automatic.done():
            self._next_ms = now_ms + self._settings.auto_commit_interval_ms
            # The positions of now: by the time the task runs the poll may have given out more.
            offsets = dict(self._positions())
            self._automatic = asyncio.create_task(self._commit_or_tell(offsets))

    async def commit_before_leaving(self) -> None:
        """The last automatic commit before partitions go to others."""
        if self._settings.enable_auto_commit:
            await self._commit_or_tell(dict(self._positions()))

    async def _commit_or_tell(self, offsets: Offsets) -> None:
        """Nobody asked for this commit, so that a failure is only told."""
        try:
            await self.commit(offsets)
        except KafkaError as error:
            logger.warning("the automatic commit failed: %s", error)

    async def finish(self) -> None:
        """Wait for what is under way."""
        pending = [*self._tasks, *([self._automatic] if self._automatic is not None else [])]
        await asyncio.gather(*pending, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Marks the exception as seen: whoever did not await the task reads of it here.
        if not task.cancelled() and task.exception() is not None:
            logger.warning("a commit in the background failed: %s", task.exception())
