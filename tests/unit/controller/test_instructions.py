"""What the controller tells each broker after a change, and in which order."""

from __future__ import annotations

from uuid import UUID

from floodmark.controller.instructions import Instruction, instructions
from floodmark.controller.told import after_leader_and_isr, after_update_metadata
from floodmark.metadata.image import (
    BrokerInfo,
    Endpoint,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
    difference,
)
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest
from floodmark.wire.messages.stop_replica import StopReplicaRequest
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest


def broker(number: int, broker_epoch: int = 5) -> BrokerInfo:
    endpoint = Endpoint("INSIDE", f"host-{number}", 9000 + number, "PLAINTEXT")
    return BrokerInfo(number, broker_epoch, {"INSIDE": endpoint}, rack=f"r{number}")


def partition(*replicas: int, leader_epoch: int = 3) -> PartitionImage:
    return PartitionImage(replicas[0], leader_epoch, 7, replicas, replicas)


def topic(name: str, *partitions: PartitionImage, topic_id: int = 1) -> TopicImage:
    return TopicImage(name, UUID(int=topic_id), partitions)


def image(*topics: TopicImage, brokers: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    return MetadataImage(controller_id=1, controller_epoch=4).apply(
        ImageChange(
            topics={one.name: one for one in topics},
            brokers={number: broker(number) for number in brokers},
        )
    )


def told(old: MetadataImage, new: MetadataImage) -> dict[int, list[Instruction]]:
    return instructions(old, new, difference(old, new), "INSIDE")


def kinds(requests: list[Instruction]) -> list[type[Instruction]]:
    return [type(request) for request in requests]


def test_a_new_topic_is_told_whole_to_everybody_before_its_replicas_are_opened() -> None:
    told_to = told(image(), image(topic("a", partition(1, 2))))
    assert kinds(told_to[1]) == kinds(told_to[2]) == [UpdateMetadataRequest, LeaderAndIsrRequest]
    assert kinds(told_to[3]) == [UpdateMetadataRequest]
    metadata, leadership = told_to[2]
    (state,) = leadership.topic_states
    (of_partition,) = state.partition_states
    assert (state.topic_name, state.topic_id) == ("a", UUID(int=1))
    assert (of_partition.leader, of_partition.leader_epoch, of_partition.is_new) == (1, 3, True)
    assert (leadership.controller_epoch, leadership.broker_epoch) == (4, 5)
    (leader,) = leadership.live_leaders
    assert (leader.broker_id, leader.host_name, leader.port) == (1, "host-1", 9001)
    assert [one.id for one in metadata.live_brokers] == [1, 2, 3]


def test_a_broker_that_has_registered_is_told_everything_and_the_others_that_it_is_there() -> None:
    topics = topic("a", partition(1, 2)), topic("b", partition(3, 2), topic_id=2)
    told_to = told(image(*topics, brokers=(1, 3)), image(*topics))
    metadata, leadership = told_to[2]
    assert [state.topic_name for state in metadata.topic_states] == ["a", "b"]
    assert [state.topic_name for state in leadership.topic_states] == ["a", "b"]
    assert not any(p.is_new for s in leadership.topic_states for p in s.partition_states)
    for other in (1, 3):
        (news,) = told_to[other]
        assert [one.id for one in news.live_brokers] == [1, 2, 3]
        assert not news.topic_states


def test_a_process_that_took_the_place_of_another_is_told_everything_again() -> None:
    old = image(topic("a", partition(1, 2)))
    new = old.apply(ImageChange(brokers={2: broker(2, broker_epoch=9)}))
    assert kinds(told(old, new)[2]) == [UpdateMetadataRequest, LeaderAndIsrRequest]
    assert told(old, new)[2][0].broker_epoch == 9


def test_who_is_gone_is_told_before_the_leaders_that_replace_it() -> None:
    old = image(topic("a", partition(3, 1)))
    new = image(topic("a", partition(1, 3, leader_epoch=4)), brokers=(1, 2))
    told_to = told(old, new)
    assert kinds(told_to[1]) == [UpdateMetadataRequest, LeaderAndIsrRequest, UpdateMetadataRequest]
    assert [one.id for one in told_to[1][0].live_brokers] == [1, 2]
    assert told_to[1][2].topic_states[0].partition_states[0].offline_replicas == [3]
    assert 3 not in told_to


def test_a_replica_that_was_moved_away_is_stopped_after_the_others_know() -> None:
    old = image(topic("a", partition(1, 2)))
    new = image(topic("a", partition(1, 3, leader_epoch=4)))
    told_to = told(old, new)
    assert kinds(told_to[2]) == [UpdateMetadataRequest, StopReplicaRequest]
    (state,) = told_to[2][1].topic_states[0].partition_states
    assert (state.partition_index, state.leader_epoch, state.delete_partition) == (0, 4, True)


def test_a_deleted_topic_has_no_leader_and_its_replicas_are_deleted() -> None:
    told_to = told(image(topic("a", partition(1, 2))), image())
    metadata, stop = told_to[2]
    assert metadata.topic_states[0].partition_states[0].leader == -2
    assert stop.topic_states[0].partition_states[0].leader_epoch == -2
    assert kinds(told_to[3]) == [UpdateMetadataRequest]


def test_a_topic_that_takes_the_name_of_a_deleted_one_comes_after_its_deletion() -> None:
    old = image(topic("a", partition(1)))
    new = image(topic("a", partition(1, leader_epoch=0), topic_id=2))
    assert kinds(told(old, new)[1]) == [
        UpdateMetadataRequest,
        StopReplicaRequest,
        UpdateMetadataRequest,
        LeaderAndIsrRequest,
    ]


def test_a_change_of_settings_is_told_to_nobody() -> None:
    assert told(image(topic("a", partition(1))), image(topic("a", partition(1)))) == {}


def test_a_broker_learns_of_a_topic_whole_or_not_at_all() -> None:
    """A client gives up the partitions that a topic seems not to have."""
    whole = image(topic("a", partition(2, 1), partition(3, 2)))
    metadata, leadership = told(image(), whole)[1]
    assert isinstance(metadata, UpdateMetadataRequest)
    assert isinstance(leadership, LeaderAndIsrRequest)
    assert after_leader_and_isr(image(), leadership).topics == {}
    known = after_update_metadata(image(), metadata)
    assert after_leader_and_isr(known, leadership).topics == whole.topics


def test_a_deletion_does_not_concern_another_topic_of_the_same_name() -> None:
    old, new = topic("a", partition(1, 2)), topic("a", partition(1, 2), topic_id=2)
    deletion, *_ = told(image(old), image())[2]
    assert isinstance(deletion, UpdateMetadataRequest)
    assert not after_update_metadata(image(old), deletion).topics
    assert after_update_metadata(image(new), deletion).topics == {"a": new}
