"""This broker's coordinators, and the partitions of their topics they serve.

`Coordination` follows the image and the replicas. It loads an internal topic's partition when this
broker becomes its leader, and unloads it when the broker loses leadership or the partition goes
offline. Each service is created, and its code imported, on first use: a broker without groups
starts without them.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from floodmark.broker.controller_client import ControllerClient
from floodmark.broker.internal_topics import internal_settings
from floodmark.broker.links import BrokerLinks
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.controller.decision import ControllerUnavailable
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Delta,
    MetadataImage,
)
from floodmark.records.compression import Compression
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode

if TYPE_CHECKING:
    from floodmark.broker.coordinator_log import InternalTopicLog
    from floodmark.coordinators.groups.service import GroupService
    from floodmark.coordinators.transactions.ports import Marker
    from floodmark.coordinators.transactions.service import TransactionService

TOGETHER_MS: Final = 5_000
"""Brokers of a cluster that are started together are all there by then, and the first consumer may
be faster: an internal topic with one replica would stay so."""


class Coordination:
    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        controller: ControllerClient,
        links: BrokerLinks,
        replicas: ReplicaManager,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._links = links
        self._metadata = metadata
        self._controller = controller
        self._replicas = replicas
        self._clock = clock
        self._loaded: set[TopicPartition] = set()

    @cached_property
    def groups(self) -> GroupService:
        from floodmark.coordinators.groups.service import GroupService
        from floodmark.coordinators.groups.settings import GroupSettings

        config = self._metadata.config
        service = GroupService(
            self._offsets_log(config),
            self._clock,
            GroupSettings.of(config),
            compression=Compression(config.get_int("offsets.topic.compression.codec")),
        )
        service.metadata_changed(self._metadata.image, Delta())
        return service

    @cached_property
    def transactions(self) -> TransactionService:
        from floodmark.broker.marker_log import ReplicaMarkerLog
        from floodmark.coordinators.transactions.limits import Limits
        from floodmark.coordinators.transactions.service import TransactionService

        return TransactionService(
            broker_id=self._broker_id,
            log=self._transaction_log(self._metadata.config),
            marker_log=ReplicaMarkerLog(self._replicas, self._clock, self._offsets_marked),
            cluster=_Cluster(self._metadata, self._links),
            clock=self._clock,
            limits=Limits.of(self._metadata.config, _transaction_version(self._metadata.image)),
            allocate_producer_ids=self._allocate_producer_ids,
        )

    @property
    def groups_if_any(self) -> GroupService | None:
        """For observers: asking must not create the service."""
        return self.groups if self._is_made("groups") else None

    def image_changed(self, image: MetadataImage, delta: Delta) -> None:
        """Called after the partitions have applied the image."""
        if self._is_made("groups"):
            self.groups.metadata_changed(image, delta)
        if self._is_made("transactions"):
            self.transactions.limits.server_version = _transaction_version(image)
        self.partitions_changed()

    def partitions_changed(self) -> None:
        """Serves the partitions this broker leads now, including those that could not open before.

        The image alone is not enough: a partition with a damaged folder is ours but offline.
        """
        image = self._metadata.image
        leads = {
            (name, index)
            for name in (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
            if name in image.topics
            for index in range(len(image.topics[name].partitions))
            if self._is_led((name, index))
        }
        for name, index in self._loaded - leads:
            self._service(name).unload(index)
        for name, index in sorted(leads - self._loaded):
            self._service(name).load(index)
        self._loaded = leads

    def config_changed(self, config: BrokerConfig) -> None:
        if self._is_made("groups"):
            from floodmark.coordinators.groups.settings import GroupSettings

            self.groups.settings_changed(GroupSettings.of(config))

    def close(self) -> None:
        if self._is_made("groups"):
            self.groups.close()
        if self._is_made("transactions"):
            self.transactions.close()

    def _is_led(self, key: TopicPartition) -> bool:
        replica = self._replicas.find(key)
        return replica is not None and replica.core.is_leader

    def _is_made(self, service: str) -> bool:
        return service in self.__dict__

    def _service(self, topic: str) -> GroupService | TransactionService:
        return self.groups if topic == CONSUMER_OFFSETS_TOPIC else self.transactions

    def _offsets_marked(self, partition: int, marker: Marker) -> None:
        self.groups.marker(
            partition, marker.producer_id, marker.producer_epoch, committed=marker.committed
        )

    async def _allocate_producer_ids(self) -> tuple[int, int]:
        from floodmark.coordinators.ports import CoordinatorError

        try:
            block = await self._controller.allocate_producer_ids()
        except ControllerUnavailable as problem:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(problem)) from problem
        return block.first, block.size

    def _offsets_log(self, config: BrokerConfig) -> InternalTopicLog:
        return self._internal_log(
            CONSUMER_OFFSETS_TOPIC,
            config.get_int("offsets.topic.num.partitions"),
            "offsets.topic.replication.factor",
            config,
        )

    def _transaction_log(self, config: BrokerConfig) -> InternalTopicLog:
        return self._internal_log(
            TRANSACTION_STATE_TOPIC,
            config.get_int("transaction.state.log.num.partitions"),
            "transaction.state.log.replication.factor",
            config,
        )

    def _internal_log(
        self, topic: str, partition_count: int, factor_setting: str, config: BrokerConfig
    ) -> InternalTopicLog:
        from floodmark.broker.coordinator_log import InternalTopicLog

        return InternalTopicLog(
            topic,
            partition_count=partition_count,
            replication_factor=config.get_int(factor_setting),
            patience_ms=_patience_ms(config, factor_setting),
            settings=internal_settings(topic, config),
            commit_timeout_ms=self._metadata.config.get_int("offsets.commit.timeout.ms"),
            metadata=self._metadata,
            controller=self._controller,
            replicas=self._replicas,
            clock=self._clock,
        )


def _patience_ms(config: BrokerConfig, factor_setting: str) -> float:
    """How long an internal topic waits for as many brokers as it should have replicas: for ever if
    somebody has chosen their number, as in Kafka. One broker alone works without settings."""
    if config.is_set(factor_setting):
        return math.inf
    return TOGETHER_MS if config.is_clustered else 0.0


def _transaction_version(image: MetadataImage) -> int:
    return image.features.finalized.get("transaction.version", 0)


class _Cluster:
    """Partition leaders for the transaction coordinator, and how to reach them."""

    def __init__(self, metadata: MetadataCache, links: BrokerLinks) -> None:
        self._metadata = metadata
        self._links = links

    def leader_of(self, topic: str, partition: int) -> int | None:
        found = self._metadata.image.partition(topic, partition)
        return None if found is None else found.leader

    async def request(self, broker_id: int, message: Any) -> Any:
        """Each kind of request has its own connection, as in Kafka: markers may wait for a dead
        follower, and a connection answers one request after the other."""
        return await self._links.request(broker_id, message, type(message).__name__)
