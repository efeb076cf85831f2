"""Partitions that lost their leader in a decision whose first part alone was stored."""

from __future__ import annotations

from uuid import UUID

import pytest

from floodmark.config import BrokerConfig
from floodmark.controller.cutting import cut
from floodmark.controller.decision import View
from floodmark.controller.membership import brokers_changed
from floodmark.metadata import paths
from floodmark.metadata.image import (
    BrokerInfo,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.store import Create, Operation, SetData
from floodmark.vocabulary import NO_LEADER


def test_a_partition_that_could_have_a_leader_gets_one_though_no_broker_has_changed() -> None:
    partition = PartitionImage(NO_LEADER, 5, 9, (1, 2), (1,))
    after = looked_at(partition, live=(1, 2)).change.topics["orders"]
    assert after is not None
    (led,) = after.partitions
    assert (led.leader, led.leader_epoch, led.isr) == (1, 6, (1,))


@pytest.mark.parametrize(
    "partition",
    [
        PartitionImage(NO_LEADER, 5, 9, (1, 2), (3,)),
        # Its creation was not finished: `unfinished.py` does that.
        PartitionImage(NO_LEADER, 0, -1, (1, 2), ()),
        PartitionImage(1, 5, 9, (1, 2), (1, 2)),
    ],
    ids=["nobody in sync lives", "never stored", "has a leader"],
)
def test_other_partitions_stay_as_they_are(partition: PartitionImage) -> None:
    assert not looked_at(partition, live=(1, 2)).operations


def test_eligible_leaders_are_stored_together_with_their_state() -> None:
    """Found by the simulator: a list that belongs to another state kept every later one out."""
    operations: list[Operation] = [
        SetData(paths.state_path("orders", 0), b"x" * 100),
        Create(paths.eligible_path("orders", 0), b"x" * 100),
        SetData(paths.state_path("orders", 1), b"x" * 100),
    ]
    assert list(cut(operations, 10)) == [operations[:2], operations[2:]]


def looked_at(partition: PartitionImage, live: tuple[int, ...]):
    """What the controller decides when the registered brokers are those that it knows."""
    brokers = {number: BrokerInfo(number, 100 + number, {}) for number in live}
    topic = TopicImage("orders", UUID(int=7), (partition,))
    image = MetadataImage(brokers=brokers).apply(ImageChange(topics={topic.name: topic}))
    view = View(image, BrokerConfig.load({}), lambda _: 0, lambda: UUID(int=0))
    return brokers_changed(view, brokers)
