"""The controller of a simulated cluster: the real decisions on an image that never fails.

Used by `testing.simulator`. Sessions and the store behind them are one step each here; what travels
over the network is what the controller tells brokers and what leaders ask of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from floodmark.config import BrokerConfig
from floodmark.controller import isr, membership
from floodmark.controller.decision import Decision, View
from floodmark.controller.elections import ElectionType, elect_leaders, led_by
from floodmark.controller.partition_states import store_partitions
from floodmark.metadata.image import (
    BrokerInfo,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.testing.simulated_network import (
    CONTROLLER,
    AlterPartition,
    AlterPartitionAnswer,
    LeaderAndIsr,
    Message,
)

TOPIC = "floods"
TOPIC_ID = UUID(int=0xF100D)


class SimulatedController:
    def __init__(self, replicas: Sequence[int], send: Callable[[Message], None]) -> None:
        self._send = send
        self._config = BrokerConfig.load({})
        self._broker_epochs = count(1)
        first = PartitionImage(replicas[0], 0, 0, tuple(replicas), tuple(replicas))
        topic = TopicImage(TOPIC, TOPIC_ID, (first,))
        self.image = MetadataImage().apply(ImageChange(topics={TOPIC: topic}))

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics[TOPIC].partitions[0]

    def is_registered(self, broker_id: int) -> bool:
        return broker_id in self.image.brokers

    def has_session(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.broker_epoch == broker_epoch

    def register(self, broker_id: int) -> int:
        """A broker opens a session; its broker epoch."""
        broker_epoch = next(self._broker_epochs)
        info = BrokerInfo(broker_id, broker_epoch, {})
        self._carry_out(membership.broker_registered(self._view(), info))
        self.tell(broker_id)
        return broker_epoch

    def expire(self, broker_id: int) -> None:
        """A session ends, whether or not the broker has."""
        self._carry_out(membership.broker_gone(self._view(), broker_id))

    def elect_preferred(self) -> None:
        self._carry_out(elect_leaders(self._view(), ElectionType.PREFERRED, None))

    def move_leader(self, leader: int) -> None:
        """Another in-sync replica takes over while the leader lives, as before its shutdown."""
        partition = self.partition
        moved = led_by(partition, leader, partition.isr)
        operations, change = store_partitions(self.image, {(TOPIC, 0): moved})
        self._carry_out(Decision(None, operations, change))

    def alter_partition(self, source: int, request: AlterPartition) -> None:
        decision = isr.alter_partitions(
            self._view(), source, request.broker_epoch, [request.proposal]
        )
        self._carry_out(decision)
        answer = decision.answer
        one = answer.partitions[0] if answer.partitions else None
        error_code = answer.error_code if one is None else one.error_code
        self._send(
            Message(CONTROLLER, source, AlterPartitionAnswer(request.proposal, error_code, one))
        )

    def tell(self, broker_id: int) -> None:
        """Sends the partition to a broker as it is now."""
        broker = self.image.brokers.get(broker_id)
        if broker is not None:
            told = LeaderAndIsr(broker.broker_epoch, self.partition)
            self._send(Message(CONTROLLER, broker_id, told))

    def _carry_out(self, decision: Decision[Any]) -> None:
        before = self.partition
        self.image = self.image.apply(decision.change)
        if self.partition != before:
            for broker_id in self.image.brokers:
                self.tell(broker_id)

    def _view(self) -> View:
        return View(self.image, self._config, lambda _: 0, lambda: UUID(int=0))
