"""Partitions that move to other brokers: begin, catch up, complete, change one's mind, call off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from floodmark.config import BrokerConfig
from floodmark.controller.decision import Decision, View
from floodmark.controller.instructions import instructions
from floodmark.controller.isr import IsrMember, IsrProposal, alter_partitions
from floodmark.controller.membership import broker_gone
from floodmark.controller.partitions import MorePartitions, create_partitions
from floodmark.controller.reassignment import (
    Reassignment,
    complete_all,
    is_moving,
    reassign_partitions,
)
from floodmark.controller.told import after_stop_replica
from floodmark.controller.topics import TopicRef, delete_topics
from floodmark.metadata import paths
from floodmark.metadata.image import (
    BrokerInfo,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
    difference,
)
from floodmark.metadata.loader import decode_topics
from floodmark.metadata.node_table import NodeTable
from floodmark.metadata.store import Create
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest
from floodmark.wire.messages.stop_replica import StopReplicaRequest

TOPIC_ID = UUID(int=7)


def view(*partitions: PartitionImage, unclean: bool = False) -> View:
    brokers = {number: BrokerInfo(number, 100 + number, {}) for number in (1, 2, 3, 4, 5)}
    topic = TopicImage("t", TOPIC_ID, partitions)
    image = MetadataImage(brokers=brokers).apply(ImageChange(topics={"t": topic}))
    settings = {"unclean.leader.election.enable": str(unclean).lower()}
    return View(image, BrokerConfig.load(settings), lambda _: 0, lambda: UUID(int=1))


def after(view: View, decision: Decision[Any]) -> View:
    return replace(view, image=view.image.apply(decision.change))


def moved(view: View, *replicas: int, to_factor: bool = True) -> View:
    wanted = [Reassignment("t", 0, replicas)]
    decision = reassign_partitions(view, wanted, allow_factor_change=to_factor)
    (answer,) = decision.answer
    assert answer.error_code is ErrorCode.NONE, answer.message
    return after(view, decision)


def refused(view: View, replicas: tuple[int, ...] | None, **options: bool) -> ErrorCode:
    decision = reassign_partitions(view, [Reassignment("t", 0, replicas)], **options)
    assert not decision.operations
    (answer,) = decision.answer
    assert answer.message
    return answer.error_code


def cancelled(view: View) -> View:
    decision = reassign_partitions(view, [Reassignment("t", 0, None)])
    (answer,) = decision.answer
    assert answer.error_code is ErrorCode.NONE, answer.message
    return after(view, decision)


def in_sync(view: View, *isr: int) -> tuple[View, ErrorCode]:
    """The leader asks for these in-sync replicas."""
    now = only(view)
    members = [IsrMember(broker, 100 + broker) for broker in isr]
    proposal = IsrProposal(TOPIC_ID, 0, now.leader_epoch, now.partition_epoch, members)
    decision = alter_partitions(view, now.leader, 100 + now.leader, [proposal])
    (answer,) = decision.answer.partitions
    return after(view, decision), answer.error_code


def only(view: View) -> PartitionImage:
    return view.image.topics["t"].partitions[0]


ONE_TWO = PartitionImage(1, 5, 9, (1, 2), (1, 2))


def test_a_move_begins_with_all_replicas_and_a_higher_leader_epoch():
    partition = only(moved(view(ONE_TWO), 3, 2))
    assert partition == PartitionImage(1, 6, 10, (3, 2, 1), (1, 2), (3,), (1,))


def test_it_is_complete_when_the_last_wanted_replica_is_in_sync():
    now, error_code = in_sync(moved(view(ONE_TWO), 3, 4), 1, 2, 3)
    assert error_code is ErrorCode.NONE
    assert is_moving(only(now))
    now, error_code = in_sync(now, 1, 2, 3, 4)
    assert error_code is ErrorCode.NEW_LEADER_ELECTED
    assert only(now) == PartitionImage(3, 7, 12, (3, 4), (3, 4))


def test_a_leader_that_stays_begins_a_new_epoch():
    now, error_code = in_sync(moved(view(ONE_TWO), 1, 3), 1, 2, 3)
    assert error_code is ErrorCode.NEW_LEADER_ELECTED
    assert only(now) == PartitionImage(1, 7, 11, (1, 3), (1, 3))


def test_a_move_waits_for_a_replica_that_was_there_before_and_is_out_of_sync():
    """As in Kafka 3.9: otherwise a partition could end with fewer in sync than it began with."""
    now, _ = in_sync(moved(view(PartitionImage(1, 5, 9, (1, 2), (1,))), 2, 3), 1, 3)
    assert is_moving(only(now))
    now, _ = in_sync(now, 1, 2, 3)
    assert only(now).replicas == only(now).isr == (2, 3)


def test_nobody_has_to_catch_up_for_fewer_replicas_or_another_order():
    fewer = only(moved(view(PartitionImage(1, 5, 9, (1, 2, 3), (1, 2, 3))), 2, 3))
    assert fewer == PartitionImage(2, 6, 10, (2, 3), (2, 3))
    reordered = only(moved(view(ONE_TWO), 2, 1))
    assert reordered == PartitionImage(1, 6, 10, (2, 1), (1, 2))


def test_what_is_there_already_is_no_change():
    decision = reassign_partitions(view(ONE_TWO), [Reassignment("t", 0, (1, 2))])
    assert decision.answer[0].error_code is ErrorCode.NONE
    assert not decision.operations
    begun = moved(view(ONE_TWO), 3, 2)
    assert only(moved(begun, 3, 2)) == only(begun)


def test_another_move_in_the_middle_drops_whom_the_first_one_was_adding():
    now, _ = in_sync(moved(view(ONE_TWO), 3, 4), 1, 2, 3)
    now = moved(now, 4, 5)
    partition = only(now)
    assert (partition.replicas, partition.isr) == ((4, 5, 1, 2), (1, 2))
    assert (partition.adding_replicas, partition.removing_replicas) == ((4, 5), (1, 2))


def test_a_move_that_is_called_off_leaves_what_was_there_before():
    now, _ = in_sync(moved(view(ONE_TWO), 3, 4), 1, 2, 3)
    assert only(cancelled(now)) == PartitionImage(1, 7, 12, (1, 2), (1, 2))


def test_calling_off_takes_the_lead_from_a_new_replica():
    now, _ = in_sync(moved(view(ONE_TWO), 3, 4), 1, 2, 3)
    now = after(now, broker_gone(now, 1))
    led_by_new = only(now)._replace(leader=3)
    topic = now.image.topics["t"].with_partitions({0: led_by_new})
    now = replace(now, image=now.image.apply(ImageChange(topics={"t": topic})))
    assert only(cancelled(now)).leader == 2


@pytest.mark.parametrize("unclean", [False, True])
def test_calling_off_does_not_lose_records_unless_the_topic_allows_it(unclean: bool):
    moving = PartitionImage(3, 7, 9, (3, 4, 1, 2), (3,), (3, 4), (1, 2))
    now = view(moving, unclean=unclean)
    if not unclean:
        assert refused(now, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    else:
        assert only(cancelled(now)) == PartitionImage(1, 8, 10, (1, 2), (1,))


def test_what_cannot_be_is_refused():
    now = view(ONE_TWO)
    assert refused(now, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert refused(now, ()) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused(now, (1, 1)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused(now, (1, 9)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    changed = refused(now, (1, 2, 3), allow_factor_change=False)
    assert changed is ErrorCode.INVALID_REPLICATION_FACTOR
    wanted = [Reassignment("no", 0, (1,)), Reassignment("t", 8, (1,))]
    for answer in reassign_partitions(now, wanted).answer:
        assert answer.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_moves_are_stored_with_the_topic_and_the_next_controller_completes_them():
    now = view(ONE_TWO)
    decision = reassign_partitions(now, [Reassignment("t", 0, (3, 2))])
    (topic_node,) = (op for op in decision.operations if op.path == paths.topic_path("t"))
    assignment = paths.decode_topic(topic_node.data)
    assert assignment.replicas == {0: (3, 2, 1)}
    assert assignment.adding_replicas == {0: (3,)}
    assert assignment.removing_replicas == {0: (1,)}
    now = after(now, decision)
    assert not complete_all(now).operations
    # As a controller of Apache Kafka leaves it when it ends before the last step.
    stored = only(now)._replace(isr=(1, 2, 3))
    topic = now.image.topics["t"].with_partitions({0: stored})
    now = replace(now, image=now.image.apply(ImageChange(topics={"t": topic})))
    assert only(after(now, complete_all(now))).replicas == (3, 2)


def test_the_stored_nodes_are_the_image():
    """Also the eligible leaders: the minimum of two is one again when one replica is left."""
    now = view(PartitionImage(1, 0, 0, (1, 2), (1, 2)))
    table = NodeTable(":memory:")
    names = (paths.TOPICS, paths.topic_path("t"), paths.partitions_path("t"))
    for path in ("/brokers", *names, paths.partition_path("t", 0)):
        table.multi([Create(path, _data(path, now))], 0)
    table.multi([Create(paths.state_path("t", 0), paths.encode_state(only(now), 0))], 0)
    for replicas in ((2, 3), (1, 4), (1,)):
        decision = reassign_partitions(now, [Reassignment("t", 0, replicas)])
        table.multi(decision.operations, 0)
        now = after(now, decision)
        assert decode_topics(table.read_tree(paths.TOPICS))["t"] == now.image.topics["t"]
    table.close()


def _data(path: str, view: View) -> bytes:
    is_topic = path == paths.topic_path("t")
    return paths.encode_topic(view.image.topics["t"]) if is_topic else b""


def test_a_topic_on_the_move_can_be_deleted_and_grown():
    now = moved(view(ONE_TWO), 3, 4)
    deletion = delete_topics(now, [TopicRef("t")])
    assert deletion.answer[0].error_code is ErrorCode.NONE
    told = instructions(
        now.image,
        after(now, deletion).image,
        difference(now.image, after(now, deletion).image),
        "INSIDE",
    )
    stopped = {b for b, all_ in told.items() if any(type(r) is StopReplicaRequest for r in all_)}
    assert stopped == {1, 2, 3, 4}
    grown = create_partitions(now, [MorePartitions("t", 2)])
    assert grown.answer[0].error_code is ErrorCode.NONE
    assert len(grown.change.topics["t"].partitions[1].replicas) == 2


def test_who_gets_a_replica_is_told_that_it_is_new_and_who_loses_it_to_delete_it():
    old = view(ONE_TWO)
    begun = moved(old, 3, 2)
    told = instructions(old.image, begun.image, difference(old.image, begun.image), "INSIDE")
    new = {
        broker: state.partition_states[0].is_new
        for broker, requests in told.items()
        for request in requests
        if isinstance(request, LeaderAndIsrRequest)
        for state in request.topic_states
    }
    assert new == {1: False, 2: False, 3: True}
    done, _ = in_sync(begun, 1, 2, 3)
    told = instructions(begun.image, done.image, difference(begun.image, done.image), "INSIDE")
    (stop,) = (request for request in told[1] if isinstance(request, StopReplicaRequest))
    (state,) = stop.topic_states[0].partition_states
    assert (state.leader_epoch, state.delete_partition) == (7, True)


def test_a_repeated_request_to_delete_a_replica_leaves_one_that_has_come_back():
    begun = moved(view(ONE_TWO), 3, 2)
    done, _ = in_sync(begun, 1, 2, 3)
    told = instructions(begun.image, done.image, difference(begun.image, done.image), "INSIDE")
    (stop,) = (request for request in told[1] if isinstance(request, StopReplicaRequest))
    assert after_stop_replica(begun.image, stop, 1).partition("t", 0).replicas == (3, 2)
    back = moved(done, 1, 2).image
    assert after_stop_replica(back, stop, 1) == back
