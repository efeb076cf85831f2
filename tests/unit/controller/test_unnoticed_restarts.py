"""A broker that restarts before its absence was noticed may have lost what it had not synced."""

from __future__ import annotations

from uuid import UUID

from floodmark.config import BrokerConfig
from floodmark.controller.decision import View
from floodmark.controller.membership import broker_registered
from floodmark.metadata.image import (
    BrokerInfo,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)


def restarted(broker_id: int, partition: PartitionImage) -> tuple[PartitionImage, int]:
    """The partition after the restart of a broker, and the version its write expects."""
    brokers = {number: BrokerInfo(number, 100 + number, {}) for number in partition.replicas}
    topic = TopicImage("orders", UUID(int=7), (partition,))
    image = MetadataImage(brokers=brokers).apply(ImageChange(topics={topic.name: topic}))
    view = View(image, BrokerConfig.load({}), lambda _: 0, lambda: UUID(int=0))
    decision = broker_registered(view, BrokerInfo(broker_id, 200, {}))
    (operation,) = decision.operations
    after = decision.change.topics["orders"]
    assert after is not None
    return after.partitions[0], operation.version


def test_a_leader_that_restarted_unnoticed_hands_over_to_another_in_sync_replica():
    after, version = restarted(1, PartitionImage(1, 5, 9, (1, 2, 3), (1, 2, 3)))
    assert (after.leader, after.leader_epoch, after.isr) == (2, 6, (2, 3))
    assert (after.partition_epoch, version) == (10, 9)


def test_a_follower_that_restarted_unnoticed_has_to_catch_up_first():
    after, version = restarted(2, PartitionImage(1, 5, 9, (1, 2), (1, 2)))
    assert (after.leader, after.leader_epoch, after.isr) == (1, 5, (1,))
    assert (after.partition_epoch, version) == (10, 9)


def test_the_last_in_sync_replica_that_restarted_unnoticed_leads_again():
    after, _ = restarted(1, PartitionImage(1, 5, 9, (1, 2), (1,)))
    assert (after.leader, after.leader_epoch, after.isr) == (1, 6, (1,))
