"""A broker that hands its leaderships over before it stops: the decision, and what others hear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from floodmark.config import BrokerConfig
from floodmark.controller.controlled_shutdown import controlled_shutdown
from floodmark.controller.decision import Decision, View
from floodmark.controller.elections import elect, elect_leaders
from floodmark.controller.instructions import instructions
from floodmark.controller.isr import IsrMember, IsrProposal, alter_partitions
from floodmark.controller.known_brokers import recall, still_there
from floodmark.controller.membership import broker_gone, broker_registered
from floodmark.controller.topics import NewTopic, create_topics
from floodmark.metadata import paths
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
    difference,
)
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.stop_replica import StopReplicaRequest
from floodmark.wire.numbers import ElectionType

TOPIC_ID = UUID(int=7)


def view(*partitions: PartitionImage, brokers: tuple[int, ...] = (1, 2, 3)) -> View:
    image = MetadataImage(
        brokers={number: BrokerInfo(number, 100 + number, {}) for number in brokers}
    ).apply(
        ImageChange(
            topics={"t": TopicImage("t", TOPIC_ID, partitions)},
            configs={ConfigResource("topic", "t"): {"min.insync.replicas": "2"}},
        )
    )
    return View(image, BrokerConfig.load({}), lambda _: 0, lambda: UUID(int=1))


def after(view: View, decision: Decision[Any]) -> View:
    return replace(view, image=view.image.apply(decision.change))


def partition_of(view: View, index: int = 0) -> PartitionImage:
    return view.image.topics["t"].partitions[index]


def test_leaders_move_and_the_broker_leaves_the_in_sync_replicas():
    now = view(
        PartitionImage(1, 5, 9, (1, 2, 3), (1, 2, 3)), PartitionImage(2, 5, 9, (2, 1), (2, 1))
    )
    decision = controlled_shutdown(now, 1, 101)
    assert decision.answer.error_code is ErrorCode.NONE
    assert decision.answer.remaining == ()
    now = after(now, decision)
    assert partition_of(now) == PartitionImage(2, 6, 10, (1, 2, 3), (2, 3))
    followed = partition_of(now, 1)
    assert (followed.leader, followed.leader_epoch, followed.isr) == (2, 5, (2,))
    assert followed.eligible_leader_replicas == (1,), "it has all, and its stop may yet be clean"


def test_a_leader_of_apache_kafka_is_told_under_a_new_epoch_that_it_lost_a_follower():
    now = view(PartitionImage(2, 5, 9, (2, 1), (2, 1)))
    of_kafka = replace(now.image.brokers[2], is_kafka=True)
    now = replace(now, image=now.image.apply(ImageChange(brokers={2: of_kafka})))
    assert partition_of(after(now, controlled_shutdown(now, 1, 101))).leader_epoch == 6


def test_a_partition_that_nobody_can_take_is_answered_until_somebody_can():
    now = view(PartitionImage(1, 5, 9, (1, 2), (1,)))
    decision = controlled_shutdown(now, 1, 101)
    assert decision.answer.remaining == (("t", 0),)
    now = after(now, decision)
    assert partition_of(now).leader == 1
    caught_up = partition_of(now)._replace(isr=(1, 2))
    topic = now.image.topics["t"].with_partitions({0: caught_up})
    now = replace(now, image=now.image.apply(ImageChange(topics={"t": topic})))
    again = controlled_shutdown(now, 1, 101)
    assert again.answer.remaining == ()
    assert partition_of(after(now, again)).leader == 2


def test_partitions_with_one_replica_are_left_alone():
    decision = controlled_shutdown(view(PartitionImage(1, 5, 9, (1,), (1,))), 1, 101)
    assert decision.answer.remaining == ()
    assert not decision.change.topics


def test_replicas_on_brokers_that_are_gone_or_stop_as_well_are_not_waited_for():
    now = view(PartitionImage(1, 5, 9, (1, 2), (1, 2)), PartitionImage(1, 5, 9, (1, 4), (1,)))
    now = after(now, controlled_shutdown(now, 2, 102))
    decision = controlled_shutdown(now, 1, 101)
    assert decision.answer.remaining == ()
    assert partition_of(after(now, decision)).leader == 1


def test_an_earlier_life_of_the_broker_and_one_that_is_not_there_are_refused():
    now = view(PartitionImage(1, 5, 9, (1, 2), (1, 2)))
    assert controlled_shutdown(now, 1, 50).answer.error_code is ErrorCode.STALE_BROKER_EPOCH
    assert controlled_shutdown(now, 9).answer.error_code is ErrorCode.BROKER_NOT_AVAILABLE
    assert controlled_shutdown(now, 1, 500).answer.error_code is ErrorCode.BROKER_NOT_AVAILABLE


def test_a_broker_that_shuts_down_stays_out_of_the_in_sync_replicas():
    now = view(PartitionImage(1, 5, 9, (1, 2, 3), (1, 2, 3)))
    now = after(now, controlled_shutdown(now, 1, 101))
    members = [IsrMember(2, 102), IsrMember(3, 103), IsrMember(1, 101)]
    proposal = IsrProposal(TOPIC_ID, 0, 6, 10, members)
    (answer,) = alter_partitions(now, 2, 102, [proposal]).answer.partitions
    assert answer.error_code is ErrorCode.INELIGIBLE_REPLICA
    (election,) = elect_leaders(now, ElectionType.PREFERRED, [("t", 0)]).answer
    assert election.error_code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_it_gets_no_new_partitions():
    now = view()
    now = after(now, controlled_shutdown(now, 1, 101))
    (made,) = create_topics(now, [NewTopic("new", 6, 2)]).change.topics.values()
    assert {replica for partition in made.partitions for replica in partition.replicas} == {2, 3}


def test_it_leads_before_nobody_does():
    """Two stop together: what the first had goes to the second, while that is there."""
    now = view(PartitionImage(1, 5, 9, (1, 2), (1, 2)))
    now = after(now, controlled_shutdown(now, 2, 102))
    assert partition_of(now).isr == (1,)
    both = partition_of(now)._replace(isr=(1, 2))
    led = elect(both, after(now, broker_gone(now, 1)).image, unclean_allowed=False)
    assert led is not None
    assert led.leader == 2


def test_the_next_controller_remembers_who_shuts_down_until_it_registers_again():
    now = view(PartitionImage(1, 5, 9, (1, 2), (1, 2)))
    decision = controlled_shutdown(now, 1, 101)
    (stored,) = (op.data for op in decision.operations if op.path == paths.KNOWN_BROKERS)
    brokers = still_there(recall(stored), now.image.brokers)
    assert brokers[1].is_shutting_down
    assert not brokers[2].is_shutting_down
    now = after(now, decision)
    now = after(now, broker_registered(now, BrokerInfo(1, 300, {})))
    assert now.image.is_active(1)


def test_followers_are_told_to_stop_without_deleting():
    old = view(
        PartitionImage(1, 5, 9, (1, 2, 3), (1, 2, 3)), PartitionImage(2, 5, 9, (2, 1), (2, 1))
    )
    new = after(old, controlled_shutdown(old, 1, 101))
    told = instructions(old.image, new.image, difference(old.image, new.image), "INSIDE")
    (stop,) = (one for one in told[1] if isinstance(one, StopReplicaRequest))
    (topic,) = stop.topic_states
    (partition,) = topic.partition_states
    assert (partition.partition_index, partition.leader_epoch) == (1, 5)
    assert not partition.delete_partition
    assert not any(isinstance(one, StopReplicaRequest) for one in (*told[2], *told[3]))
