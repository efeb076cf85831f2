"""Applies the cluster's image to this broker's partitions.

Called by `broker.broker`, which subscribes to the metadata cache: a delta is applied before the
request that caused it is answered, so a client that has created a topic can use it at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from floodmark.broker.delayed_work import Deferred
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.topic_config import TopicConfig, topic_config
from floodmark.metadata.image import (
    Delta,
    MetadataImage,
    PartitionChange,
    PartitionImage,
    TopicImage,
)
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.replication.throttle import is_throttled
from floodmark.storage.errors import DiskFull, LogDirFailure, StorageError, TooManyFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig, log_config_from, produce_rules_from
from floodmark.storage.log_manager import LogManager
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)

HANDLED_TOGETHER = 32
"""How many partition folders a thread creates or renames at a time."""

T = TypeVar("T")


class Partitions:
    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        logs: LogManager,
        replicas: ReplicaManager,
        clock: Clock,
        executor: Executor,
        deferred: Deferred,
        no_folder_left: Callable[[], None],
    ) -> None:
        self.config = config
        self._broker_id = broker_id
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._executor = executor
        self._deferred = deferred
        self._no_folder_left = no_folder_left
        # Held while a thread opens partitions: nothing else may open or remove them then.
        self._applying = asyncio.Lock()
        self._closed = False
        # Maps each unopened partition to whether it is new: new ones may be created while a log
        # folder is offline.
        self._unopened: dict[TopicPartition, bool] = {}
        # Topics that are gone from the image and not yet from the disk.
        self._deleted: set[UUID] = set()

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return log_config_from(self._topic_config(image, topic))

    async def apply(self, image: MetadataImage, delta: Delta, *, at_start: bool) -> None:
        """At the start, the delta goes from nothing to the image, and nothing in it is new."""
        deleted = {topic.topic_id for topic in delta.deleted_topics}
        self._deleted |= deleted
        # Before any wait: the name may already belong to another topic, whose records must not go
        # into a log that is being removed.
        for topic in delta.deleted_topics:
            for index in range(len(topic.partitions)):
                self._replicas.remove((topic.name, index))
        async with self._applying:
            if not self._closed:
                await self._apply(image, delta, at_start)
        self._deleted -= deleted

    async def close(self) -> None:
        """Waits for logs being opened, and opens no more."""
        async with self._applying:
            self._closed = True

    async def _apply(self, image: MetadataImage, delta: Delta, at_start: bool) -> None:
        for deleted in delta.deleted_topics:
            await self._remove_logs(deleted.name, range(len(deleted.partitions)))
        for created in delta.created_topics:
            partitions = list(enumerate(created.partitions))
            await self._apply_all(image, created, partitions, is_new=not at_start)
        # Together, because each call builds the topic's settings and waits for a thread.
        for (_, is_new), group in groupby(delta.changed_partitions, self._topic_and_is_new):
            changes = list(group)
            partitions = [(change.partition, change.new) for change in changes]
            await self._apply_all(image, changes[0].topic, partitions, is_new=is_new)
        for resource in delta.changed_configs:
            if resource.kind == "topic" and resource.name in image.topics:
                self.reconfigure(image, image.topics[resource.name])

    def _topic_and_is_new(self, change: PartitionChange) -> tuple[str, bool]:
        is_new = change.old is None or self._broker_id not in change.old.replicas
        return change.topic.name, is_new

    async def reopen(self, image: MetadataImage) -> bool:
        """Retries partitions that could not open on a full disk or without file descriptors.

        Returns whether it opened any.
        """
        async with self._applying:
            return not self._closed and await self._reopen(image)

    async def _reopen(self, image: MetadataImage) -> bool:
        waiting = len(self._unopened)
        for (name, index), is_new in sorted(self._unopened.items()):
            topic = image.topics.get(name)
            if topic is None or index >= len(topic.partitions):
                self._unopened.pop((name, index), None)
            else:
                partitions = [(index, topic.partitions[index])]
                await self._apply_all(image, topic, partitions, is_new=is_new)
        return len(self._unopened) < waiting

    def reconfigure(self, image: MetadataImage, topic: TopicImage) -> None:
        """Applies a topic's changed settings from the next request on."""
        settings = self._topic_config(image, topic.name)
        config = log_config_from(settings)
        rules = produce_rules_from(settings, check_records=self._checks_records)
        min_in_sync_replicas = settings.get_int("min.insync.replicas")
        for index in range(len(topic.partitions)):
            replica = self._replicas.find((topic.name, index))
            if replica is not None:
                replica.log.config = config
                replica.rules = rules
                replica.min_in_sync_replicas = min_in_sync_replicas
                self._throttle(replica, settings)

    async def _apply_all(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partitions: list[tuple[int, PartitionImage]],
        *,
        is_new: bool,
    ) -> None:
        settings = self._topic_config(image, topic.name)
        elsewhere = [index for index, one in partitions if self._broker_id not in one.replicas]
        for index in elsewhere:
            self._replicas.remove((topic.name, index))
        await self._remove_logs(topic.name, elsewhere)
        here = [(index, one) for index, one in partitions if self._broker_id in one.replicas]
        # Shared: most partitions of a new topic are in the same state.
        leaderships = {one: Leadership.of(one) for _, one in here}
        for some in _portions(here):
            logs = await self._open_logs(topic, settings, some, is_new)
            for index, one in some:
                self._apply_one(topic, settings, index, leaderships[one], logs.get(index), is_new)

    async def _open_logs(
        self,
        topic: TopicImage,
        settings: TopicConfig,
        partitions: Sequence[tuple[int, PartitionImage]],
        is_new: bool,
    ) -> dict[int, PartitionLog | StorageError]:
        """Opens the logs that are not open yet. Returns each log or the reason it failed.

        Runs in a thread, because a file system may take long to create a folder while it syncs.
        Logs opened at the start are already available.
        """
        missing = [
            index for index, _ in partitions if self._replicas.find((topic.name, index)) is None
        ]
        config, now_ms = log_config_from(settings), self._clock.now_ms()

        def open_all() -> dict[int, PartitionLog | StorageError]:
            opened: dict[int, PartitionLog | StorageError] = {}
            for index in missing:
                try:
                    opened[index] = self._logs.get_or_create(
                        topic.name, index, topic.topic_id, config, now_ms=now_ms, is_new=is_new
                    )
                except StorageError as problem:
                    opened[index] = problem
            return opened

        if all(self._logs.get(topic.name, index) is not None for index in missing):
            return open_all()
        return await self._in_thread(open_all)

    def _apply_one(
        self,
        topic: TopicImage,
        settings: TopicConfig,
        index: int,
        leadership: Leadership,
        opened: PartitionLog | StorageError | None,
        is_new: bool,
    ) -> None:
        key = (topic.name, index)
        if topic.topic_id in self._deleted:
            return
        if isinstance(opened, StorageError):
            self._not_opened(key, opened, is_new)
            return
        if opened is not None:
            self._unopened.pop(key, None)
            if self._logs.get(*key) is not opened or not self._logs.is_usable(opened):
                # Its folder has failed since, perhaps together with the previous partition.
                self._replicas.mark_offline(key)
                return
            self._replicas.add(self._replica(topic, settings, opened))
        replica = self._replicas.find(key)
        if replica is None:
            return
        self._replicas.lead_or_follow(replica, leadership)

    def _replica(self, topic: TopicImage, settings: TopicConfig, log: PartitionLog) -> Replica:
        checkpointed = self._logs.high_watermarks.get((log.topic, log.partition), 0)
        if checkpointed > log.log_end_offset:
            logger.error(
                "%s-%d ends at offset %d, but had reached %d: the rest was not on disk yet when the"
                " power failed, or its files are lost",
                *(log.topic, log.partition, log.log_end_offset, checkpointed),
            )
        core = Partition(
            self._broker_id,
            log_end_offset=log.log_end_offset,
            high_watermark=max(checkpointed, log.log_start_offset),
        )
        replica = Replica(
            core,
            log,
            topic.topic_id,
            produce_rules_from(settings, check_records=self._checks_records),
            settings.get_int("min.insync.replicas"),
        )
        self._throttle(replica, settings)
        return replica

    def _throttle(self, replica: Replica, settings: TopicConfig) -> None:
        as_leader = settings.get_list("leader.replication.throttled.replicas")
        as_follower = settings.get_list("follower.replication.throttled.replicas")
        index = replica.key[1]
        replica.is_throttled_as_leader = is_throttled(as_leader, index, self._broker_id)
        replica.is_throttled_as_follower = is_throttled(as_follower, index, self._broker_id)

    def _not_opened(self, key: TopicPartition, problem: StorageError, is_new: bool) -> None:
        self._replicas.mark_offline(key)
        if isinstance(problem, DiskFull):
            self._replicas.found_disk_full(problem)
        if isinstance(problem, DiskFull | TooManyFiles):
            if key not in self._unopened:
                logger.error("could not open %s-%d, will retry: %s", *key, problem)
            self._unopened[key] = is_new
            return
        self._unopened.pop(key, None)
        if isinstance(problem, LogDirFailure):
            self.fail_folder_of(problem)
        else:
            logger.error("%s-%d is offline, leaving its files alone: %s", *key, problem)

    def disk_failed(self, replica: Replica, problem: StorageError | OSError) -> None:
        """Takes the partition offline, or its whole log folder."""
        if isinstance(problem, OSError):
            problem = LogDirFailure(replica.log.directory.parent, str(problem))
        if isinstance(problem, LogDirFailure):
            self.fail_folder_of(problem)
        elif replica.is_here:
            # A sync may fail after its topic was deleted and created again.
            self.fail_one(replica.key)

    def fail_folder_of(self, problem: LogDirFailure) -> None:
        """A failing log folder takes only its own partitions offline (SPEC L8)."""
        lost = self._logs.fail_dir(problem.directory, str(problem))
        self._replicas.take_offline(lost)
        if not self._logs.dirs:
            self._no_folder_left()

    def fail_one(self, key: TopicPartition) -> None:
        """Takes one partition offline whose files are damaged, on a healthy disk."""
        self._logs.fail_log(*key)
        self._replicas.take_offline([key])

    async def _remove_logs(self, topic: str, indexes: Sequence[int]) -> None:
        """Removes partitions that are no longer served: renames folders now and deletes them later.

        Both run off the loop.
        """
        for some in _portions(indexes):
            logs = [log for index in some if (log := self._logs.get(topic, index)) is not None]
            if logs:
                for log, outcome in await self._in_thread(partial(self._rename, logs)):
                    self._renamed(log, outcome)

    def _rename(self, logs: list[PartitionLog]) -> list[tuple[PartitionLog, Path | StorageError]]:
        outcomes: list[tuple[PartitionLog, Path | StorageError]] = []
        for log in logs:
            try:
                outcomes.append((log, self._logs.delete(log.topic, log.partition)))
            except StorageError as problem:
                outcomes.append((log, problem))
        return outcomes

    def _renamed(self, log: PartitionLog, outcome: Path | StorageError) -> None:
        if isinstance(outcome, LogDirFailure):
            self.fail_folder_of(outcome)
        elif isinstance(outcome, StorageError):
            logger.error(
                "could not remove the folder of %s-%d: %s", log.topic, log.partition, outcome
            )
        else:
            delay_ms = log.config.file_delete_delay_ms
            self._deferred.run_later(delay_ms, self._logs.remove_folder, outcome)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _topic_config(self, image: MetadataImage, topic: str) -> TopicConfig:
        return topic_config(self.config, image.config("topic", topic))

    @property
    def _checks_records(self) -> bool:
        return self.config.get_bool("floodmark.produce.full.check")


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), HANDLED_TOGETHER):
        yield items[first : first + HANDLED_TOGETHER]
