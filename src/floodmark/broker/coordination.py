"""The coordinators of this broker, and which partitions of their topics they serve.

`Coordination` makes both services and follows the image: a partition of an internal topic that this
broker begins to lead is loaded, one that it ceases to lead is unloaded.
"""

from __future__ import annotations

from typing import Any

from floodmark.broker.coordinator_log import InternalTopicLog
from floodmark.broker.marker_log import ReplicaMarkerLog
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.controller.service import ControllerService
from floodmark.coordinators.groups.service import GroupService
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.coordinators.transactions.limits import Limits
from floodmark.coordinators.transactions.ports import Marker
from floodmark.coordinators.transactions.service import TransactionService
from floodmark.metadata.image import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Delta,
    MetadataImage,
)
from floodmark.records.compression import Compression
from floodmark.replication.replica_manager import ReplicaManager


class Coordination:
    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        controller: ControllerService,
        replicas: ReplicaManager,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._loaded: set[tuple[str, int]] = set()
        self.groups = GroupService(
            self._offsets_log(config, controller, replicas, clock),
            clock,
            GroupSettings.of(config),
            compression=Compression(config.get_int("offsets.topic.compression.codec")),
        )
        self.transactions = TransactionService(
            broker_id=broker_id,
            log=self._transaction_log(config, controller, replicas, clock),
            marker_log=ReplicaMarkerLog(replicas, clock, self._offsets_marked),
            cluster=_Cluster(controller),
            clock=clock,
            limits=Limits.of(config, 0),
            allocate_producer_ids=self._allocate_producer_ids,
        )

    def image_changed(self, image: MetadataImage, delta: Delta) -> None:
        """Called after the partitions have followed the image."""
        self.groups.metadata_changed(image, delta)
        self.transactions.limits.server_version = image.features.finalized.get(
            "transaction.version", 0
        )
        leads = {
            (name, index)
            for name in (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
            if name in image.topics
            for index, partition in enumerate(image.topics[name].partitions)
            if partition.leader == self._broker_id
        }
        for name, index in self._loaded - leads:
            self._service(name).unload(index)
        for name, index in sorted(leads - self._loaded):
            self._service(name).load(index)
        self._loaded = leads

    def config_changed(self, config: BrokerConfig) -> None:
        self.groups.settings_changed(GroupSettings.of(config))

    def close(self) -> None:
        self.groups.close()
        self.transactions.close()

    def _service(self, topic: str) -> GroupService | TransactionService:
        return self.groups if topic == CONSUMER_OFFSETS_TOPIC else self.transactions

    def _offsets_marked(self, partition: int, marker: Marker) -> None:
        self.groups.marker(
            partition, marker.producer_id, marker.producer_epoch, committed=marker.committed
        )

    async def _allocate_producer_ids(self) -> tuple[int, int]:
        block = await self._controller.allocate_producer_ids(self._broker_id)
        return block.first, block.size

    @staticmethod
    def _offsets_log(
        config: BrokerConfig,
        controller: ControllerService,
        replicas: ReplicaManager,
        clock: Clock,
    ) -> InternalTopicLog:
        return InternalTopicLog(
            CONSUMER_OFFSETS_TOPIC,
            partition_count=config.get_int("offsets.topic.num.partitions"),
            replication_factor=config.get_int("offsets.topic.replication.factor"),
            settings={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
            },
            commit_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
            controller=controller,
            replicas=replicas,
            clock=clock,
        )

    @staticmethod
    def _transaction_log(
        config: BrokerConfig,
        controller: ControllerService,
        replicas: ReplicaManager,
        clock: Clock,
    ) -> InternalTopicLog:
        return InternalTopicLog(
            TRANSACTION_STATE_TOPIC,
            partition_count=config.get_int("transaction.state.log.num.partitions"),
            replication_factor=config.get_int("transaction.state.log.replication.factor"),
            settings={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.get_int("transaction.state.log.min.isr")),
                "segment.bytes": str(config.get_int("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
            commit_timeout_ms=config.get_int("offsets.commit.timeout.ms"),
            controller=controller,
            replicas=replicas,
            clock=clock,
        )


class _Cluster:
    """Who leads what, for the transaction coordinator. This broker is the only one there is."""

    def __init__(self, controller: ControllerService) -> None:
        self._controller = controller

    def leader_of(self, topic: str, partition: int) -> int | None:
        found = self._controller.image.partition(topic, partition)
        return None if found is None else found.leader

    async def request(self, broker_id: int, message: Any) -> Any:
        raise ConnectionError(f"broker {broker_id} is not part of this cluster of one")
