"""Brings the partitions of this broker in line with the cluster's image.

`broker.broker` subscribes `apply` to the controller: a delta is applied before the request that
caused it is answered, so a client that has created a topic can use it at once.
"""

from __future__ import annotations

import asyncio
import logging
from uuid import uuid4

from floodmark.broker.deferred import Deferred
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.topic_config import TopicConfig, topic_config
from floodmark.metadata.image import Delta, MetadataImage, PartitionImage, TopicImage
from floodmark.replication.partition import Leadership, Partition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import DiskFull, LogDirFailure, StorageError, TooManyFiles
from floodmark.storage.log_config import LogConfig, log_config_from, produce_rules_from
from floodmark.storage.log_manager import LogManager

logger = logging.getLogger(__name__)

SLICE_MS = 5.0
"""Making the files of many partitions lets other requests in after this long."""


class Partitions:
    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        logs: LogManager,
        replicas: ReplicaManager,
        clock: Clock,
        deferred: Deferred,
    ) -> None:
        self.config = config
        self._broker_id = broker_id
        self._logs = logs
        self._replicas = replicas
        self._clock = clock
        self._deferred = deferred
        # With whether they were new: those may be made while a log folder is offline.
        self._unopened: dict[tuple[str, int], bool] = {}

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return log_config_from(self._topic_config(image, topic))

    async def apply(self, image: MetadataImage, delta: Delta, *, at_start: bool) -> None:
        """At the start the delta goes from nothing to the image, and nothing in it is new."""
        for deleted in delta.deleted_topics:
            for index in range(len(deleted.partitions)):
                self._delete(deleted.name, index)
        for created in delta.created_topics:
            await self._apply_all(
                image, created, enumerate_partitions(created), is_new=not at_start
            )
        for change in delta.changed_partitions:
            await self._apply_all(
                image, change.topic, [(change.partition, change.new)], is_new=change.old is None
            )
        for resource in delta.changed_configs:
            if resource.kind == "topic" and resource.name in image.topics:
                self.reconfigure(image, image.topics[resource.name])

    async def reopen(self, image: MetadataImage) -> bool:
        """Tries again what a full disk, or a lack of file descriptors, kept from opening.

        Says whether anything was opened.
        """
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
        """A topic's settings changed: they count from the next request on."""
        settings = self._topic_config(image, topic.name)
        for index in range(len(topic.partitions)):
            replica = self._replicas.find((topic.name, index))
            if replica is not None:
                replica.log.config = log_config_from(settings)
                replica.rules = produce_rules_from(settings, check_records=self._checks_records)
                replica.min_in_sync_replicas = settings.get_int("min.insync.replicas")

    async def _apply_all(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partitions: list[tuple[int, PartitionImage]],
        *,
        is_new: bool,
    ) -> None:
        settings = self._topic_config(image, topic.name)
        slice_began_ms = self._clock.monotonic_ms()
        for index, partition in partitions:
            self._apply_one(topic, settings, index, partition, is_new)
            if self._clock.monotonic_ms() - slice_began_ms > SLICE_MS:
                await asyncio.sleep(0)
                slice_began_ms = self._clock.monotonic_ms()

    def _apply_one(
        self,
        topic: TopicImage,
        settings: TopicConfig,
        index: int,
        partition: PartitionImage,
        is_new: bool,
    ) -> None:
        key = (topic.name, index)
        if self._broker_id not in partition.replicas:
            self._delete(*key)
            return
        replica = self._replicas.find(key)
        if replica is None:
            replica = self._open(topic, settings, index, is_new)
            if replica is None:
                return
        leadership = Leadership(
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.isr,
            partition.replicas,
        )
        if replica.lead_or_follow(leadership, self._clock.monotonic_ms()):
            self._replicas.changed(key)

    def _open(
        self, topic: TopicImage, settings: TopicConfig, index: int, is_new: bool
    ) -> Replica | None:
        key = (topic.name, index)
        try:
            log = self._logs.get_or_create(
                topic.name,
                index,
                topic.topic_id,
                log_config_from(settings),
                now_ms=self._clock.now_ms(),
                is_new=is_new,
            )
        except StorageError as problem:
            self._not_opened(key, problem, is_new)
            return None
        self._unopened.pop(key, None)
        core = Partition(
            self._broker_id,
            log_end_offset=log.log_end_offset,
            high_watermark=max(self._logs.high_watermarks.get(key, 0), log.log_start_offset),
        )
        replica = Replica(
            core,
            log,
            topic.topic_id,
            produce_rules_from(settings, check_records=self._checks_records),
            settings.get_int("min.insync.replicas"),
        )
        self._replicas.add(replica)
        return replica

    def _not_opened(self, key: tuple[str, int], problem: StorageError, is_new: bool) -> None:
        self._replicas.mark_offline(key)
        if isinstance(problem, DiskFull | TooManyFiles):
            if key not in self._unopened:
                logger.error("cannot open %s-%d now, will try again: %s", *key, problem)
            self._unopened[key] = is_new
            return
        self._unopened.pop(key, None)
        if isinstance(problem, LogDirFailure):
            self.fail_folder_of(problem)
        else:
            logger.error("%s-%d is offline, its files are left alone: %s", *key, problem)

    def fail_folder_of(self, problem: LogDirFailure) -> None:
        """One failing log folder takes only its partitions offline (SPEC L8)."""
        lost = self._logs.fail_dir(problem.directory, str(problem))
        self._replicas.take_offline(lost)

    def _delete(self, topic: str, partition: int) -> None:
        """The folder is renamed at once and removed later, off the loop."""
        replica = self._replicas.remove((topic, partition))
        if replica is None:
            return
        delay_ms = replica.log.config.file_delete_delay_ms
        try:
            folder = self._logs.delete(topic, partition, uuid4().hex)
        except LogDirFailure as problem:
            self.fail_folder_of(problem)
            return
        except StorageError as problem:
            logger.error("the folder of %s-%d is left behind: %s", topic, partition, problem)
            return
        self._deferred.run_later(delay_ms, self._logs.remove_folder, folder)

    def _topic_config(self, image: MetadataImage, topic: str) -> TopicConfig:
        return topic_config(self.config, image.config("topic", topic))

    @property
    def _checks_records(self) -> bool:
        return self.config.get_bool("floodmark.produce.full.check")


def enumerate_partitions(topic: TopicImage) -> list[tuple[int, PartitionImage]]:
    return list(enumerate(topic.partitions))
