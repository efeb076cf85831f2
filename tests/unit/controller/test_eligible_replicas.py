"""Eligible leader replicas and the mark of a clean stop (KIP-966)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from floodmark.config import BrokerConfig
from floodmark.controller.configs import ConfigAlteration, ConfigStep, incremental_alter_configs
from floodmark.controller.decision import Decision, View
from floodmark.controller.elections import led_by
from floodmark.controller.isr import IsrMember, IsrProposal, alter_partitions
from floodmark.controller.membership import broker_gone, broker_registered
from floodmark.controller.partition_states import store_partitions
from floodmark.controller.rebalance import minimum_changed, with_consequences
from floodmark.metadata import paths
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.store import Create, Delete, SetData
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ConfigOperation

TOPIC_ID = UUID(int=7)


def view_of(partition: PartitionImage, *live: int, min_in_sync_replicas: int = 2) -> View:
    topic = TopicImage("orders", TOPIC_ID, (partition,))
    settings = {"min.insync.replicas": str(min_in_sync_replicas)}
    image = MetadataImage(brokers={number: BrokerInfo(number, 100, {}) for number in live}).apply(
        ImageChange(
            topics={topic.name: topic}, configs={ConfigResource("topic", "orders"): settings}
        )
    )
    return View(image, BrokerConfig.load({}), lambda _: 0, lambda: UUID(int=0))


def after(change: ImageChange) -> PartitionImage:
    topic = change.topics["orders"]
    assert topic is not None
    return topic.partitions[0]


def state(partition: PartitionImage) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    return partition.leader, partition.isr, partition.eligible_leader_replicas


def comes_back(
    partition: PartitionImage, broker_id: int, *live: int, unbroken_since: int
) -> ImageChange:
    view = view_of(partition, *live)
    gone = BrokerInfo(broker_id, 100, {}, is_fenced=True)
    view = replace(view, image=view.image.apply(ImageChange(brokers={broker_id: gone})))
    broker = BrokerInfo(broker_id, 200, {}, unbroken_since=unbroken_since)
    return broker_registered(view, broker).change


def test_who_leaves_too_few_in_sync_stays_eligible():
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1, 2))
    assert state(after(broker_gone(view_of(partition, 1, 2), 2).change)) == (1, (1,), (2,))


def test_who_leaves_enough_in_sync_is_not_eligible():
    """The high watermark goes on without it."""
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1, 2, 3))
    assert state(after(broker_gone(view_of(partition, 1, 2, 3), 3).change)) == (1, (1, 2), ())


def test_nobody_is_eligible_once_enough_are_in_sync_again():
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    proposal = IsrProposal(TOPIC_ID, 0, 5, 9, [IsrMember(1, 100), IsrMember(3, 100)])
    decision = alter_partitions(view_of(partition, 1, 2, 3), 1, 100, [proposal])
    assert state(after(decision.change)) == (1, (1, 3), ())


def test_an_eligible_replica_leads_when_the_last_in_sync_one_goes():
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    assert state(after(broker_gone(view_of(partition, 1, 2), 1).change)) == (2, (2,), (1,))


def test_the_last_in_sync_replica_leads_again_after_a_clean_stop():
    partition = PartitionImage(-1, 6, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    assert state(after(comes_back(partition, 1, unbroken_since=100))) == (1, (1,), (2,))


def test_the_last_in_sync_replica_waits_for_an_eligible_one_after_an_unclean_stop():
    partition = PartitionImage(-1, 6, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    waiting = after(comes_back(partition, 1, unbroken_since=-1))
    assert state(waiting) == (-1, (2,), ())
    assert state(after(comes_back(waiting, 2, 1, unbroken_since=-1))) == (2, (2,), ())


def test_sessions_that_nobody_missed_do_not_break_the_trust():
    """It lived on since epoch 90, and lost its session more than once."""
    partition = PartitionImage(-1, 6, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    assert state(after(comes_back(partition, 1, unbroken_since=90))) == (1, (1,), (2,))


def test_a_clean_stop_after_a_restart_that_nobody_noticed_is_no_clean_stop():
    """It stopped cleanly after epoch 150, which began after an unclean stop."""
    partition = PartitionImage(-1, 6, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    assert state(after(comes_back(partition, 1, unbroken_since=150))) == (-1, (2,), ())


def test_an_eligible_replica_is_so_no_more_after_an_unclean_stop():
    partition = PartitionImage(-1, 6, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2, 3))
    assert state(after(comes_back(partition, 2, unbroken_since=-1))) == (-1, (1,), (3,))


def test_with_a_minimum_of_one_the_last_replica_is_all_there_is():
    partition = PartitionImage(-1, 6, 9, (1, 2), (1,), eligible_leader_replicas=(2,))
    view = view_of(partition, min_in_sync_replicas=1)
    decision = broker_registered(view, BrokerInfo(1, 200, {}))
    assert after(decision.change).leader == 1


ORDERS = ConfigResource("topic", "orders")
ALL_BROKERS = ConfigResource("broker", "")


def with_minimum(view: View, resource: ConfigResource, value: str) -> Decision[Any]:
    steps = [ConfigStep("min.insync.replicas", ConfigOperation.SET, value)]
    altered = incremental_alter_configs(view, [ConfigAlteration(resource, steps)])
    return with_consequences(view, altered)


@pytest.mark.parametrize("minimum", ["1", "3"])
def test_nobody_is_eligible_after_a_change_of_the_minimum(minimum: str):
    """With a minimum of one the leader may commit alone, and a later minimum must not make those
    eligible again who missed that."""
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    decision = with_minimum(view_of(partition, 1, 2, 3), ORDERS, minimum)
    assert state(after(decision.change)) == (1, (1,), ())
    paths_written = [operation.path for operation in decision.operations]
    eligible, settings = paths.eligible_path("orders", 0), paths.config_path(ORDERS)
    assert paths_written.index(eligible) < paths_written.index(settings)


def test_the_default_for_all_topics_ends_eligibility_where_it_counts():
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    view = view_of(partition, 1, 2, 3)
    assert not with_minimum(view, ALL_BROKERS, "3").change.topics
    unset = replace(view, image=view.image.apply(ImageChange(configs={ORDERS: None})))
    assert state(after(with_minimum(unset, ALL_BROKERS, "2").change)) == (1, (1,), ())


def test_settings_that_others_have_written_end_eligibility_too():
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    before, now = view_of(partition, 1), view_of(partition, 1, min_in_sync_replicas=1)
    assert state(after(minimum_changed(before, now).change)) == (1, (1,), ())
    assert not minimum_changed(before, before).change.topics


def test_the_eligible_have_a_node_of_their_own_as_long_as_there_are_any():
    in_sync = PartitionImage(1, 5, 9, (1, 2, 3), (1, 2))
    path = paths.eligible_path("orders", 0)
    left = broker_gone(view_of(in_sync), 2)
    alone = after(left.change)
    assert Create(path, paths.encode_eligible(alone)) in left.operations
    assert all(b"eligible" not in one.data for one in left.operations if isinstance(one, SetData))
    shrunk = led_by(alone, 1, (1,))
    operations, _ = store_partitions(view_of(alone).image, {("orders", 0): shrunk})
    assert SetData(path, paths.encode_eligible(shrunk)) in operations
    again = shrunk._replace(isr=(1, 2), eligible_leader_replicas=())
    operations, _ = store_partitions(view_of(shrunk).image, {("orders", 0): again})
    assert Delete(path) in operations


def test_a_list_from_before_another_controller_wrote_the_state_is_void():
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    data = paths.encode_eligible(partition)
    assert paths.decode_eligible(data, 9) == (2,)
    assert paths.decode_eligible(data, 10) == ()


@pytest.mark.parametrize(
    ("broker_epoch", "error_code"),
    [(99, ErrorCode.INELIGIBLE_REPLICA), (101, ErrorCode.NOT_CONTROLLER), (100, ErrorCode.NONE)],
)
def test_a_registration_that_the_controller_has_not_seen_yet_is_no_final_refusal(
    broker_epoch: int, error_code: ErrorCode
):
    """After a final one the leader goes on without the replica, and must be able to rely on it."""
    partition = PartitionImage(1, 5, 9, (1, 2, 3), (1,))
    proposal = IsrProposal(TOPIC_ID, 0, 5, 9, [IsrMember(1, 100), IsrMember(2, broker_epoch)])
    decision = alter_partitions(view_of(partition, 1, 2), 1, 100, [proposal])
    assert decision.answer.partitions[0].error_code is error_code
