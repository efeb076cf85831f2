"""Leaders that go back to their preferred replicas, and elections that a setting allows."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from floodmark.config import BrokerConfig
from floodmark.controller.configs import ConfigAlteration, ConfigStep, incremental_alter_configs
from floodmark.controller.controlled_shutdown import controlled_shutdown
from floodmark.controller.decision import View
from floodmark.controller.rebalance import rebalance_leaders, with_elections
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)

AWAY = PartitionImage(2, 5, 9, (1, 2), (1, 2))
AT_HOME = PartitionImage(1, 5, 9, (1, 2), (1, 2))
LEADERLESS = PartitionImage(-1, 5, 9, (3, 2), (3,))


def view(*partitions: PartitionImage, percentage: int = 10) -> View:
    brokers = {number: BrokerInfo(number, 100 + number, {}) for number in (1, 2)}
    topic = TopicImage("t", UUID(int=7), partitions)
    image = MetadataImage(brokers=brokers).apply(ImageChange(topics={"t": topic}))
    settings = {"leader.imbalance.per.broker.percentage": str(percentage)}
    return View(image, BrokerConfig.load(settings), lambda _: 0, lambda: UUID(int=1))


def led(view: View) -> list[int]:
    image = view.image.apply(rebalance_leaders(view).change)
    return [partition.leader for partition in image.topics["t"].partitions]


def test_leaders_go_back_to_their_preferred_replicas():
    decision = rebalance_leaders(view(AWAY, AT_HOME))
    assert decision.answer == 1
    assert led(view(AWAY, AT_HOME)) == [1, 1]
    (topic,) = decision.change.topics.values()
    assert topic.partitions[0] == PartitionImage(1, 6, 10, (1, 2), (1, 2))


def test_a_few_that_are_elsewhere_are_left_alone():
    assert led(view(AWAY, AT_HOME, percentage=50)) == [2, 1]
    assert led(view(AWAY, AT_HOME, percentage=49)) == [1, 1]


@pytest.mark.parametrize(
    "partition",
    [
        AWAY._replace(isr=(2,)),
        AWAY._replace(replicas=(3, 2), isr=(3, 2)),
        AWAY._replace(adding_replicas=(1,)),
    ],
    ids=["out of sync", "gone", "on the move"],
)
def test_who_cannot_lead_yet_is_not_made_to(partition: PartitionImage):
    assert not rebalance_leaders(view(partition)).operations


def test_a_broker_that_shuts_down_gets_nothing_back():
    now = view(AWAY)
    now = replace(now, image=now.image.apply(controlled_shutdown(now, 1, 101).change))
    assert not rebalance_leaders(now).operations


@pytest.mark.parametrize("resource", [ConfigResource("topic", "t"), ConfigResource("broker", "")])
def test_a_partition_without_a_leader_gets_one_when_unclean_election_is_allowed(resource):
    now = view(LEADERLESS, AT_HOME)
    step = ConfigStep("unclean.leader.election.enable", 0, "true")
    decision = with_elections(
        now, incremental_alter_configs(now, [ConfigAlteration(resource, [step])])
    )
    image = now.image.apply(decision.change)
    assert image.topics["t"].partitions == (PartitionImage(2, 6, 10, (3, 2), (2,)), AT_HOME)
    assert image.config(*resource) == {"unclean.leader.election.enable": "true"}


def test_other_settings_elect_nobody():
    now = view(LEADERLESS)
    steps = [ConfigStep("retention.ms", 0, "5")]
    alteration = ConfigAlteration(ConfigResource("topic", "t"), steps)
    decision = with_elections(now, incremental_alter_configs(now, [alteration]))
    assert not decision.change.topics
