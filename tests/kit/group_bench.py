"""A group coordinator over a log in memory and a clock that tests move."""

from __future__ import annotations

from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.service import GroupService
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.metadata.image import (
    Delta,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
    difference,
)
from floodmark.promise import Promise
from floodmark.testing.memory_coordinator_log import MemoryCoordinatorLog
from floodmark.testing.virtual_clock import FIXED_START_MS, VirtualClock

T = TypeVar("T")

CLIENT = Client("app", "/10.0.0.1", 9)


def topic_image(name: str, partitions: int, number: int = 1) -> TopicImage:
    replica = PartitionImage(0, 0, 0, (0,), (0,))
    return TopicImage(name, UUID(int=number), (replica,) * partitions)


class GroupBench:
    def __init__(
        self,
        settings: GroupSettings | None = None,
        partition_count: int = 1,
        *,
        commits_later: bool = False,
    ) -> None:
        self.clock = VirtualClock(FIXED_START_MS)
        self.log = MemoryCoordinatorLog(
            partition_count=partition_count, commits_later=commits_later
        )
        self.settings = settings or GroupSettings()
        self.image = MetadataImage()
        self._ids = count(1)
        self.service = self._new_service()

    def _new_service(self) -> GroupService:
        service = GroupService(
            self.log, self.clock, self.settings, new_uuid=lambda: f"id{next(self._ids)}"
        )
        service.metadata_changed(self.image, Delta())
        for partition in range(self.log.partition_count):
            service.load(partition)
        return service

    async def reload(self) -> GroupService:
        """Fail over to a coordinator that knows only the log."""
        self.service.close()
        self.service = self._new_service()
        await self.service.runtime.until_loaded()
        return self.service

    def advance(self, elapsed_ms: int) -> None:
        """In steps, so that timers which set timers run in their order."""
        while elapsed_ms > 0:
            step_ms = min(elapsed_ms, 500)
            self.clock.advance(step_ms)
            elapsed_ms -= step_ms
            self.service.runtime.run_timers()

    def set_topics(self, *topics: TopicImage) -> None:
        wanted: dict[str, Any] = dict.fromkeys(self.image.topics)
        wanted.update({topic.name: topic for topic in topics})
        image = self.image.apply(ImageChange(topics=wanted))
        delta = difference(self.image, image)
        self.image = image
        self.service.metadata_changed(image, delta)

    def group(self, group_id: str) -> Any:
        shard = self.service.runtime.shard(self.service.partition_of(group_id))
        return shard.groups.get(group_id)


def now(outcome: T | Promise[T] | Coroutine[Any, Any, T | Promise[T]]) -> T:
    """An answer that must have come already."""
    if isinstance(outcome, Promise):
        outcome = outcome.now_or_later()
    assert not isinstance(outcome, Promise | Coroutine), "the answer has not come yet"
    return outcome


def is_waiting(outcome: object) -> bool:
    return isinstance(outcome, Promise) and not outcome.is_kept
