"""Replicas in failed log folders: who leads then, who is in sync, and what everybody is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from floodmark.controller.controlled_shutdown import controlled_shutdown
from floodmark.controller.decision import Decision
from floodmark.controller.elections import elect_leaders
from floodmark.controller.instructions import instructions, question
from floodmark.controller.isr import IsrMember, IsrProposal, alter_partitions
from floodmark.controller.lost_replicas import (
    ReplicaReport,
    carried_over,
    own_report,
    replicas_reported,
    report_in,
)
from floodmark.controller.membership import broker_registered
from floodmark.controller.rebalance import rebalance_leaders
from floodmark.controller.told import after_leader_and_isr, after_update_metadata
from floodmark.metadata import paths
from floodmark.metadata.image import MetadataImage, PartitionImage, difference
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest
from floodmark.wire.numbers import ElectionType
from unit.controller.test_decisions import ORDERS_ID, broker, in_sync, orders, view


def report(broker_id: int, lost: Iterable[int] = (), sound: Iterable[int] = ()) -> ReplicaReport:
    return ReplicaReport(
        broker_id,
        100 + broker_id,
        frozenset(("orders", index) for index in lost),
        frozenset(("orders", index) for index in sound),
    )


def after(image: MetadataImage, decision: Decision[Any]) -> MetadataImage:
    return image.apply(decision.change)


def lost(image: MetadataImage, broker_id: int, *indexes: int) -> MetadataImage:
    return after(image, replicas_reported(view(image), report(broker_id, lost=indexes)))


def only_partition(image: MetadataImage) -> PartitionImage:
    (partition,) = image.topics["orders"].partitions
    return partition


def test_a_leader_on_a_failed_folder_is_replaced_and_leaves_the_in_sync_replicas() -> None:
    image = orders(in_sync(1, 2, 3))
    decision = replicas_reported(view(image), report(1, lost=[0]))
    partition = only_partition(after(image, decision))
    assert (partition.leader, partition.isr, partition.lost_replicas) == (2, (2, 3), (1,))
    assert (partition.leader_epoch, partition.partition_epoch) == (6, 10)
    assert [operation.path for operation in decision.operations] == [paths.state_path("orders", 0)]


def test_a_follower_on_a_failed_folder_leaves_the_in_sync_replicas_under_the_same_leader() -> None:
    partition = only_partition(lost(orders(in_sync(1, 2, 3)), 3, 0))
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2), 5)
    assert partition.lost_replicas == (3,)


def test_other_partitions_of_the_broker_stay_as_they_are() -> None:
    image = lost(orders(in_sync(1, 2), in_sync(1, 3)), 1, 0)
    assert image.topics["orders"].partitions[1] == in_sync(1, 3)


def test_the_last_in_sync_replica_stays_in_the_list_without_a_leader() -> None:
    partition = only_partition(lost(orders(PartitionImage(1, 5, 9, (1, 2), (1,))), 1, 0))
    assert (partition.leader, partition.isr) == (NO_LEADER, (1,))


def test_an_eligible_replica_takes_the_place_of_the_last_in_sync_one() -> None:
    image = orders(PartitionImage(1, 5, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,)))
    decision = replicas_reported(view(image, min_insync_replicas="2"), report(1, lost=[0]))
    partition = only_partition(after(image, decision))
    assert (partition.leader, partition.isr) == (2, (2,))
    # A disk that has failed may have lost what it had.
    assert 1 not in partition.eligible_leader_replicas


def test_a_report_of_an_earlier_life_of_the_broker_counts_for_nothing() -> None:
    image = orders(in_sync(1, 2))
    old = replace(report(1, lost=[0]), broker_epoch=17)
    assert replicas_reported(view(image), old) == Decision(None)


def test_what_is_known_already_is_not_stored_again() -> None:
    image = lost(orders(in_sync(1, 2)), 1, 0)
    decision = replicas_reported(view(image), report(1, lost=[0]))
    assert (decision.operations, after(image, decision)) == ([], image)


def test_a_lost_replica_is_not_elected() -> None:
    alone = PartitionImage(NO_LEADER, 5, 9, (1, 2), (1,), lost_replicas=(1,))
    image = orders(alone)
    (answer,) = elect_leaders(view(image), ElectionType.PREFERRED, [("orders", 0)]).answer
    assert answer.error_code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert not rebalance_leaders(view(image)).answer
    led_by_two = in_sync(2, 1)._replace(lost_replicas=(1,))
    stopped = controlled_shutdown(view(orders(led_by_two)), 2)
    assert stopped.answer.remaining == ()


def test_a_lost_replica_does_not_join_the_in_sync_ones() -> None:
    partition = PartitionImage(1, 5, 9, (1, 2), (1,), lost_replicas=(2,))
    proposal = IsrProposal(ORDERS_ID, 0, 5, 9, [IsrMember(1, 101), IsrMember(2, 102)])
    answer = alter_partitions(view(orders(partition)), 1, 101, [proposal]).answer
    assert answer.partitions[0].error_code is ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_is_sound_again_leads_where_nobody_does() -> None:
    image = orders(PartitionImage(NO_LEADER, 5, 9, (1, 2), (1,), lost_replicas=(1,)))
    decision = replicas_reported(view(image), report(1, sound=[0]))
    partition = only_partition(after(image, decision))
    assert (partition.leader, partition.lost_replicas) == (1, ())


@pytest.mark.parametrize("isr", [(1,), (2,)])
def test_a_broker_that_registers_anew_has_lost_nothing_until_it_says_so(
    isr: tuple[int, ...],
) -> None:
    image = orders(PartitionImage(NO_LEADER, 5, 9, (1, 2), isr, lost_replicas=(1,)))
    back = replace(broker(1), broker_epoch=200)
    image = after(image, broker_registered(view(image), back))
    assert only_partition(image).lost_replicas == ()
    assert only_partition(image).leader == isr[0]


# -- answers and instructions ---------------------------------------------------------------------


def answer_of(*codes: ErrorCode) -> LeaderAndIsrResponse:
    errors = [
        LeaderAndIsrPartitionError(partition_index=i, error_code=c) for i, c in enumerate(codes)
    ]
    topic = LeaderAndIsrTopicError(topic_id=ORDERS_ID, partition_errors=errors)
    return LeaderAndIsrResponse(topics=[topic])


def asked(image: MetadataImage, broker_id: int) -> LeaderAndIsrRequest:
    (request,) = question(image, broker_id, "PLAINTEXT")
    assert isinstance(request, LeaderAndIsrRequest)
    return request


def test_an_answer_says_which_replicas_are_lost_and_which_are_sound_again() -> None:
    image = orders(in_sync(1, 2), in_sync(2, 1)._replace(lost_replicas=(1,)), in_sync(1, 3))
    answer = answer_of(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE, ErrorCode.NONE)
    assert report_in(image, 1, asked(image, 1), answer) == report(1, lost=[0], sound=[1])


def test_an_answer_without_news_is_no_report() -> None:
    image = orders(in_sync(1, 2), in_sync(2, 1)._replace(lost_replicas=(1,)))
    answer = answer_of(ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
    assert report_in(image, 1, asked(image, 1), answer) is None


def test_the_controllers_own_broker_reports_without_being_asked() -> None:
    image = orders(in_sync(1, 2), in_sync(2, 1)._replace(lost_replicas=(1,)))
    assert own_report(image, 1, frozenset({("orders", 0)})) == report(1, lost=[0], sound=[1])


def told_after(image: MetadataImage, now: MetadataImage, broker_id: int) -> list[object]:
    return list(instructions(image, now, difference(image, now), "PLAINTEXT")[broker_id])


def test_everybody_is_told_which_replicas_are_offline() -> None:
    image = orders(in_sync(1, 2, 3))
    now = lost(image, 3, 0)
    known = image
    for request in told_after(image, now, 2):
        if isinstance(request, LeaderAndIsrRequest):
            known = after_leader_and_isr(known, request)
        elif isinstance(request, UpdateMetadataRequest):
            known = after_update_metadata(known, request)
    assert known.topics == now.topics


def test_a_loss_that_changes_nothing_else_is_no_news_for_the_replicas() -> None:
    image = orders(in_sync(1, 2)._replace(replicas=(1, 2, 3)))
    told = told_after(image, lost(image, 3, 0), 1)
    assert [type(request) for request in told] == [UpdateMetadataRequest]


def test_an_image_read_from_the_store_keeps_what_is_known_to_be_lost() -> None:
    image = lost(orders(in_sync(1, 2)), 1, 0)
    stored = orders(only_partition(image)._replace(lost_replicas=()))
    assert carried_over(image, stored).topics == image.topics
