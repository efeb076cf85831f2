"""Our controller after one of Kafka's: it has left no note of whom it knew, and is believed."""

from __future__ import annotations

from uuid import UUID

from floodmark.config import BrokerConfig
from floodmark.controller import known_brokers, membership
from floodmark.controller.decision import View
from floodmark.metadata.image import BrokerInfo, MetadataImage, PartitionImage, TopicImage


def test_brokers_that_are_registered_are_known_and_absent_ones_are_gone():
    here = BrokerInfo(2, 57, {})
    partitions = (PartitionImage(1, 3, 4, (1, 2, 3), (1, 2)), PartitionImage(-1, 3, 4, (3,), (3,)))
    topic = TopicImage("t", UUID(int=1), partitions)
    image = MetadataImage(brokers={2: here}, topics={"t": topic}, topics_by_id={})
    known = known_brokers.assumed(image)
    changes = known_brokers.compare(known, image.brokers)
    assert (changes.restarted, changes.gone, changes.new) == ([], [1, 3], [])
    assert known[2] == here


def test_a_leader_of_kafkas_gets_a_new_epoch_when_a_follower_leaves():
    """It ignores a LeaderAndIsr of the epoch that it has, and would never learn its new state."""
    for is_kafka, leader_epoch in ((True, 4), (False, 3)):
        brokers = {1: BrokerInfo(1, 7, {}, is_kafka=is_kafka), 2: BrokerInfo(2, 8, {})}
        topic = TopicImage("t", UUID(int=1), (PartitionImage(1, 3, 4, (1, 2), (1, 2)),))
        image = MetadataImage(brokers=brokers, topics={"t": topic}, topics_by_id={})
        decision = membership.broker_gone(view_of(image), 2)
        (left,) = decision.change.topics["t"].partitions
        assert (left.leader, left.leader_epoch, left.partition_epoch) == (1, leader_epoch, 5)
        assert left.isr == (1,)


def view_of(image):
    return View(image, BrokerConfig.load({}), lambda _: 0, lambda: UUID(int=9))
