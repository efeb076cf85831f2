"""A consumer's commits: explicit, periodic, and before it gives up partitions.

Belongs to `consumer.py`. Commits go out in the order they were requested.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    Offsets,
    commit_offsets,
)
from floodmark.client.errors import KafkaError
from floodmark.client.settings import ConsumerSettings
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)


class Committer:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        *,
        group: Callable[[], GroupMetadata | None],
        positions: Callable[[], Mapping[TopicPartition, int]],
        on_refused: Callable[[KafkaError, GroupMetadata], None],
    ) -> None:
        """`group` returns who commits, or None if nobody may; `positions` what to commit
        automatically; `on_refused` gets every failure and who had committed.
        """
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
        """Commits these offsets, or all current positions, and waits for completion."""
        await self._commit(self._group(), dict(self._positions() if offsets is None else offsets))

    async def _commit(
        self, group: GroupMetadata | None, wanted: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """`group` comes with the offsets: after a rebalance, both are refused together."""
        if not wanted:
            return
        if group is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                "the offsets were not committed: the consumer is not a member of its group, and "
                "others may have its partitions; the next poll joins",
            )
        async with self._in_order:
            try:
                await commit_offsets(self._cluster, group, wanted)
            except KafkaError as error:
                self._on_refused(error, group)
                raise

    def commit_nowait(self, offsets: Offsets | None = None) -> asyncio.Task[None]:
        """The same in the background. Await the returned task or check it later."""
        wanted = dict(self._positions() if offsets is None else offsets)
        task = asyncio.create_task(self._commit(self._group(), wanted))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def commit_if_due(self, now_ms: float) -> None:
        """Commits the records of earlier polls if auto-commit is due; one commit at a time."""
        if not self._settings.enable_auto_commit or now_ms < self._next_ms:
            return
        if self._automatic is None or self._automatic.done():
            self._next_ms = now_ms + self._settings.auto_commit_interval_ms
            # Copy the positions now: the next poll may advance them before the task runs.
            offsets = dict(self._positions())
            self._automatic = asyncio.create_task(self._commit_or_tell(self._group(), offsets))

    async def commit_before_leaving(self) -> None:
        """The last automatic commit before giving up partitions."""
        if self._settings.enable_auto_commit:
            await self._commit_or_tell(self._group(), dict(self._positions()))

    async def _commit_or_tell(
        self, group: GroupMetadata | None, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Nobody awaits this commit, so a failure is only logged."""
        try:
            await self._commit(group, offsets)
        except KafkaError as error:
            logger.warning("the automatic commit failed: %s", error)

    async def finish(self) -> None:
        """Waits for commits in progress."""
        pending = [*self._tasks, *([self._automatic] if self._automatic is not None else [])]
        await asyncio.gather(*pending, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Marks the exception as retrieved; if nobody awaits the task, the log shows it.
        if not task.cancelled() and task.exception() is not None:
            logger.warning("a background commit failed: %s", task.exception())
