"""The controller's pure decisions, on images made by hand."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from floodmark.config import BrokerConfig
from floodmark.controller.configs import (
    ConfigAlteration,
    ConfigReplacement,
    ConfigStep,
    alter_configs,
    incremental_alter_configs,
)
from floodmark.controller.decision import View
from floodmark.controller.elections import elect_leaders
from floodmark.controller.features import FeatureUpdate, allocate_producer_ids, update_features
from floodmark.controller.isr import IsrMember, IsrProposal, alter_partitions
from floodmark.controller.membership import broker_gone, broker_registered
from floodmark.controller.partitions import MorePartitions, create_partitions
from floodmark.controller.topics import NewTopic, TopicRef, create_topics, delete_topics
from floodmark.metadata.image import (
    BrokerInfo,
    ConfigResource,
    Features,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ConfigOperation, ElectionType, UpgradeType

ORDERS_ID = UUID(int=77)


def broker(broker_id: int, *, fenced: bool = False) -> BrokerInfo:
    return BrokerInfo(broker_id, 100 + broker_id, {}, is_fenced=fenced)


def view(image: MetadataImage | None = None, **properties: str) -> View:
    ids = count(1000)
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    if image is None:
        image = MetadataImage(brokers={1: broker(1)})
    return View(image, BrokerConfig.load(settings), lambda _: 0, lambda: UUID(int=next(ids)))


def orders(*partitions: PartitionImage, brokers: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    image = MetadataImage(brokers={number: broker(number) for number in brokers})
    return image.apply(ImageChange(topics={"orders": TopicImage("orders", ORDERS_ID, partitions)}))


def in_sync(*replicas: int, leader: int | None = None) -> PartitionImage:
    return PartitionImage(replicas[0] if leader is None else leader, 5, 9, replicas, replicas)


def only(answers):
    (answer,) = answers
    return answer


# -- creating topics ------------------------------------------------------------------------------


def test_a_topic_without_numbers_gets_the_configured_ones():
    decision = create_topics(view(num_partitions="3"), [NewTopic("orders")])
    answer = only(decision.answer)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    topic = decision.change.topics["orders"]
    assert topic.topic_id == answer.topic_id
    assert topic.partitions[0] == PartitionImage(1, 0, 0, (1,), (1,))


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (NewTopic("orders"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."),
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty string"),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'..' is not allowed"),
        (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "other than"),
        (NewTopic("naïve"), ErrorCode.INVALID_TOPIC_EXCEPTION, "other than"),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (NewTopic("t", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("t", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker"),
        (NewTopic("t", configs={"nope": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config"),
        (NewTopic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
        (NewTopic("t", configs={"segment.bytes": "x"}), ErrorCode.INVALID_CONFIG, "Not a number"),
        (NewTopic("t", 1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "numPartitions"),
        (NewTopic("t", -1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "replication factor"),
        (
            NewTopic("t", assignments=[(0, [1]), (0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "multiple manual",
        ),
        (
            NewTopic("t", assignments=[(0, [1]), (2, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "consecutive",
        ),
        (NewTopic("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty"),
        (NewTopic("t", assignments=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such"),
        (
            NewTopic("t", assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "more than once",
        ),
        (
            NewTopic("t", assignments=[(0, [1, 2]), (1, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "not consistent",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused(request_, error, words):
    decision = create_topics(view(orders(in_sync(1))), [request_])
    answer = only(decision.answer)
    assert answer.error_code is error
    assert words in answer.message
    assert decision.operations == []


def test_names_that_metrics_cannot_tell_apart_collide():
    image = view().image.apply(create_topics(view(), [NewTopic("a.b")]).change)
    answer = only(create_topics(view(image), [NewTopic("a_b")]).answer)
    assert answer.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "collides with existing topic: a.b" in answer.message


def test_names_that_metrics_cannot_tell_apart_may_come_in_one_request_as_in_kafka():
    decision = create_topics(view(), [NewTopic("a.b"), NewTopic("a_b")])
    assert [a.error_code for a in decision.answer] == [ErrorCode.NONE, ErrorCode.NONE]


def test_the_same_name_twice_in_a_request_is_refused_once():
    answer = only(create_topics(view(), [NewTopic("a"), NewTopic("a")]).answer)
    assert answer.error_code is ErrorCode.INVALID_REQUEST


def test_validate_only_answers_and_stores_nothing():
    decision = create_topics(view(), [NewTopic("a", 4)], validate_only=True)
    assert only(decision.answer).num_partitions == 4
    assert decision.operations == []
    assert decision.change == ImageChange()


def test_an_assignment_by_hand_is_taken_as_it_is():
    image = orders(in_sync(1))
    decision = create_topics(view(image), [NewTopic("t", assignments=[(1, [3, 1]), (0, [2, 3])])])
    topic = decision.change.topics["t"]
    assert [p.replicas for p in topic.partitions] == [(2, 3), (3, 1)]
    assert [p.leader for p in topic.partitions] == [2, 3]


def test_fenced_brokers_get_no_partitions():
    image = MetadataImage(brokers={1: broker(1, fenced=True)})
    answer = only(create_topics(view(image), [NewTopic("t")]).answer)
    assert answer.error_code is ErrorCode.INVALID_REPLICATION_FACTOR


# -- deleting and growing -------------------------------------------------------------------------


def test_topics_are_deleted_by_name_or_id():
    for ref in (TopicRef("orders"), TopicRef(topic_id=ORDERS_ID)):
        decision = delete_topics(view(orders(in_sync(1))), [ref])
        answer = only(decision.answer)
        assert (answer.name, answer.topic_id, answer.error_code) == ("orders", ORDERS_ID, 0)
        assert decision.change.topics == {"orders": None}
        paths = [operation.path for operation in decision.operations]
        announced = "/admin/delete_topics/orders"
        assert (paths[0], *paths[-2:]) == (announced, "/brokers/topics/orders", announced)


@pytest.mark.parametrize(
    ("refs", "error"),
    [
        ([TopicRef("nope")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([TopicRef(topic_id=UUID(int=5))], ErrorCode.UNKNOWN_TOPIC_ID),
        ([TopicRef()], ErrorCode.INVALID_REQUEST),
        ([TopicRef("orders", ORDERS_ID)], ErrorCode.INVALID_REQUEST),
        ([TopicRef("orders"), TopicRef("orders")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_deletion_that_names_no_topic_is_refused(refs, error):
    decision = delete_topics(view(orders(in_sync(1))), refs)
    assert only(decision.answer).error_code is error
    assert decision.operations == []


@pytest.mark.parametrize(
    "ids", [[TopicRef(topic_id=ORDERS_ID)], [TopicRef(topic_id=ORDERS_ID)] * 2]
)
def test_a_topic_that_is_named_by_its_id_too_stays(ids):
    for refs in ([TopicRef("orders"), *ids], [*ids, TopicRef("orders")]):
        decision = delete_topics(view(orders(in_sync(1))), refs)
        told = [a for a in decision.answer if a.name == "orders"]
        assert only(told).error_code is ErrorCode.INVALID_REQUEST
        assert only(told).topic_id == ORDERS_ID
        assert {a.error_code for a in decision.answer} == {ErrorCode.INVALID_REQUEST}
        assert decision.operations == []
        assert decision.change == ImageChange()


def test_deletion_can_be_disabled():
    decision = delete_topics(
        view(orders(in_sync(1)), delete_topic_enable="false"), [TopicRef("orders")]
    )
    assert only(decision.answer).error_code is ErrorCode.TOPIC_DELETION_DISABLED


def test_a_topic_grows_and_keeps_what_it_has():
    image = orders(in_sync(1, 2))
    decision = create_partitions(view(image), [MorePartitions("orders", 3)])
    grown = decision.change.topics["orders"]
    assert only(decision.answer).error_code is ErrorCode.NONE
    assert len(grown.partitions) == 3
    assert grown.partitions[0] is image.topics["orders"].partitions[0]
    assert all(len(p.replicas) == 2 for p in grown.partitions)


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (MorePartitions("orders", 2), ErrorCode.INVALID_PARTITIONS, "already has 2"),
        (MorePartitions("orders", 1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (MorePartitions("nope", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (MorePartitions("orders", 4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "only 1"),
        (MorePartitions("orders", 3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such"),
        (MorePartitions("orders", 3, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not cons"),
    ],
)
def test_growth_that_is_none_is_refused(request_, error, words):
    answer = only(create_partitions(view(orders(in_sync(1), in_sync(2))), [request_]).answer)
    assert answer.error_code is error
    assert words in (answer.message or "")


def test_each_topic_is_answered_for_itself():
    decision = create_partitions(
        view(orders(in_sync(1))), [MorePartitions("nope", 2), MorePartitions("orders", 2)]
    )
    assert [a.error_code for a in decision.answer] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert list(decision.change.topics) == ["orders"]


# -- settings -------------------------------------------------------------------------------------

TOPIC = ConfigResource("topic", "orders")
GROUP = ConfigResource("group", "payments")
DEFAULT = ConfigResource("broker", "")


def with_config(image: MetadataImage, resource: ConfigResource, **configs: str) -> MetadataImage:
    texts = {name.replace("_", "."): value for name, value in configs.items()}
    return MetadataImage(
        brokers=image.brokers,
        topics=image.topics,
        topics_by_id=image.topics_by_id,
        configs={resource: texts},
    )


def step(name: str, operation: int, value: str | None = None) -> ConfigStep:
    return ConfigStep(name, operation, value)


def test_a_replacement_drops_what_it_does_not_name():
    image = with_config(orders(in_sync(1)), TOPIC, retention_ms="1", segment_ms="2")
    decision = alter_configs(view(image), [ConfigReplacement(TOPIC, {"segment.ms": "3"})])
    assert decision.change.configs[TOPIC] == {"segment.ms": "3"}


def test_steps_change_only_what_they_name():
    image = with_config(orders(in_sync(1)), TOPIC, retention_ms="1", segment_ms="2")
    decision = incremental_alter_configs(
        view(image),
        [
            ConfigAlteration(
                TOPIC,
                [
                    step("retention.ms", ConfigOperation.DELETE),
                    step("max.message.bytes", ConfigOperation.SET, "5"),
                    step("cleanup.policy", ConfigOperation.APPEND, "compact"),
                ],
            )
        ],
    )
    assert decision.change.configs[TOPIC] == {
        "segment.ms": "2",
        "max.message.bytes": "5",
        "cleanup.policy": "delete,compact",
    }


def test_subtracting_leaves_the_rest_of_a_list():
    image = with_config(orders(in_sync(1)), TOPIC, cleanup_policy="compact,delete")
    request = ConfigAlteration(TOPIC, [step("cleanup.policy", ConfigOperation.SUBTRACT, "delete")])
    decision = incremental_alter_configs(view(image), [request])
    assert decision.change.configs[TOPIC] == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("resource", "steps", "error", "words"),
    [
        (TOPIC, [step("nope", 0, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config"),
        (TOPIC, [step("retention.ms", 0, "x")], ErrorCode.INVALID_CONFIG, "Not a number"),
        (TOPIC, [step("retention.ms", 2, "1")], ErrorCode.INVALID_CONFIG, "not LIST"),
        (TOPIC, [step("retention.ms", 0)], ErrorCode.INVALID_REQUEST, "Null value"),
        (TOPIC, [step("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operation"),
        (
            ConfigResource("topic", "nope"),
            [step("retention.ms", 0, "1")],
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "does not exist",
        ),
        (
            ConfigResource("topic", "nope"),
            [step("retention.ms", 0, "x")],
            ErrorCode.INVALID_CONFIG,
            "Not a number",
        ),
        (
            ConfigResource("topic", ""),
            [step("retention.ms", 0, "1")],
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed",
        ),
        (
            ConfigResource("topic", ".."),
            [step("retention.ms", 0, "1")],
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "'..' is not allowed",
        ),
        (DEFAULT, [step("log.dirs", 0, "x")], ErrorCode.INVALID_REQUEST, "dynamically"),
        (DEFAULT, [step("num.io.threads", 0, "0")], ErrorCode.INVALID_REQUEST, "at least 1"),
        (
            DEFAULT,
            [step("log.retention.ms", 0, "0")],
            ErrorCode.INVALID_REQUEST,
            "must be unlimited",
        ),
        (
            ConfigResource("broker", "9"),
            [step("num.io.threads", 0, "1")],
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "No broker",
        ),
        (GROUP, [step("retention.ms", 0, "1")], ErrorCode.INVALID_CONFIG, "Unknown group config"),
        (
            GROUP,
            [step("consumer.session.timeout.ms", 0, "44999")],
            ErrorCode.INVALID_CONFIG,
            "greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            GROUP,
            [step("consumer.heartbeat.interval.ms", 0, "15001")],
            ErrorCode.INVALID_CONFIG,
            "less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        (
            ConfigResource("group", ""),
            [step("consumer.session.timeout.ms", 0, "45000")],
            ErrorCode.INVALID_REQUEST,
            "Default group",
        ),
        (
            ConfigResource("broker", "one"),
            [step("num.io.threads", 0, "1")],
            ErrorCode.INVALID_REQUEST,
            "base 10",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused(resource, steps, error, words):
    decision = incremental_alter_configs(
        view(orders(in_sync(1))), [ConfigAlteration(resource, steps)]
    )
    answer = only(decision.answer)
    assert answer.error_code is error
    assert words in answer.message
    assert decision.operations == []


def test_validate_only_changes_no_setting():
    request = ConfigAlteration(DEFAULT, [step("num.io.threads", 0, "4")])
    decision = incremental_alter_configs(view(), [request], validate_only=True)
    assert only(decision.answer).error_code is ErrorCode.NONE
    assert decision.change == ImageChange()


# -- leaders and in-sync replicas -----------------------------------------------------------------


def test_the_first_live_in_sync_replica_leads_when_the_leader_goes():
    decision = broker_gone(view(orders(in_sync(1, 2, 3))), 1)
    partition = decision.change.topics["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 6, (2, 3))
    assert decision.operations[0].version == 9


def test_a_follower_that_goes_leaves_the_leader_and_its_epoch():
    partition = broker_gone(view(orders(in_sync(1, 2))), 2).change.topics["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 5, (1,))
    assert partition.partition_epoch == 10


def test_the_last_in_sync_replica_stays_in_the_list_without_leading():
    image = orders(PartitionImage(1, 5, 9, (1, 2), (1,)))
    partition = broker_gone(view(image), 1).change.topics["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (-1, 6, (1,))


def test_a_replica_out_of_sync_leads_only_where_that_is_allowed():
    image = orders(PartitionImage(1, 5, 9, (1, 2), (1,)))
    allowed = view(image, unclean_leader_election_enable="true")
    partition = broker_gone(allowed, 1).change.topics["orders"].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))


def test_a_broker_that_returns_leads_again_under_a_higher_epoch():
    image = orders(PartitionImage(-1, 6, 10, (1, 2), (1,)), brokers=(2,))
    decision = broker_registered(view(image), broker(1))
    partition = decision.change.topics["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 7, (1,))


def test_a_broker_that_restarted_unnoticed_gets_a_new_leader_epoch():
    decision = broker_registered(view(orders(in_sync(1), brokers=())), broker(1))
    assert decision.change.topics["orders"].partitions[0].leader_epoch == 6


def test_preferred_leaders_are_elected_where_they_are_in_sync():
    image = orders(
        in_sync(1, 2, leader=2),
        in_sync(1, 2),
        PartitionImage(2, 5, 9, (3, 2), (2,)),
    )
    keys = [("orders", 0), ("orders", 1), ("orders", 2), ("orders", 3)]
    decision = elect_leaders(view(image), ElectionType.PREFERRED, keys)
    assert [a.error_code for a in decision.answer] == [
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert decision.change.topics["orders"].partitions[0].leader == 1


def test_electing_everywhere_is_silent_where_nothing_is_needed():
    image = orders(in_sync(1, 2, leader=2), in_sync(1, 2))
    decision = elect_leaders(view(image), ElectionType.PREFERRED, None)
    assert [(a.partition, a.error_code) for a in decision.answer] == [(0, ErrorCode.NONE)]


def test_unclean_election_needs_a_live_replica():
    image = orders(PartitionImage(-1, 5, 9, (8, 2), (8,)), PartitionImage(-1, 5, 9, (8, 9), (8,)))
    decision = elect_leaders(view(image), ElectionType.UNCLEAN, [("orders", 0), ("orders", 1)])
    assert [a.error_code for a in decision.answer] == [
        ErrorCode.NONE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ]
    assert decision.change.topics["orders"].partitions[0].isr == (2,)


def propose(*isr: int, leader_epoch: int = 5, partition_epoch: int = 9, **members) -> IsrProposal:
    new_isr = [IsrMember(number, members.get("epoch", 100 + number)) for number in isr]
    return IsrProposal(ORDERS_ID, 0, leader_epoch, partition_epoch, new_isr)


def test_a_leader_shrinks_its_in_sync_replicas():
    decision = alter_partitions(view(orders(in_sync(1, 2, 3))), 1, 101, [propose(1, 3)])
    state = only(decision.answer.partitions).state
    assert (state.isr, state.partition_epoch, state.leader_epoch) == ((1, 3), 10, 5)
    assert decision.operations[0].version == 9


@pytest.mark.parametrize(
    ("proposal", "error"),
    [
        (propose(1, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (propose(1, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (propose(1, partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (propose(1, partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (propose(2, 3), ErrorCode.INVALID_REQUEST),
        (propose(1, 7), ErrorCode.INVALID_REQUEST),
        (propose(1, 2, epoch=50), ErrorCode.INELIGIBLE_REPLICA),
        (IsrProposal(UUID(int=1), 0, 5, 9, ()), ErrorCode.UNKNOWN_TOPIC_ID),
        (IsrProposal(ORDERS_ID, 4, 5, 9, ()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_proposal_on_old_knowledge_is_refused(proposal, error):
    decision = alter_partitions(view(orders(in_sync(1, 2, 3))), 1, 101, [proposal])
    assert only(decision.answer.partitions).error_code is error
    assert decision.operations == []


def test_a_proposal_of_a_broker_that_has_registered_anew_is_refused():
    decision = alter_partitions(view(orders(in_sync(1, 2))), 1, 99, [propose(1)])
    assert decision.answer.error_code is ErrorCode.STALE_BROKER_EPOCH


def test_a_proposal_of_another_broker_than_the_leader_is_refused():
    decision = alter_partitions(view(orders(in_sync(1, 2))), 2, 102, [propose(1)])
    assert only(decision.answer.partitions).error_code is ErrorCode.INVALID_REQUEST


def test_a_proposal_that_changes_nothing_is_answered_without_a_write():
    decision = alter_partitions(view(orders(in_sync(1, 2))), 1, 101, [propose(2, 1)])
    assert only(decision.answer.partitions).error_code is ErrorCode.NONE
    assert decision.operations == []


# -- features and producer ids --------------------------------------------------------------------


def with_features(**levels: int) -> View:
    finalized = {name.replace("_", "."): level for name, level in levels.items()}
    return view(MetadataImage(features=Features(finalized, 3)))


def test_a_feature_level_moves_and_the_epoch_counts_it():
    decision = update_features(
        with_features(transaction_version=2),
        [FeatureUpdate("transaction.version", 0, UpgradeType.SAFE_DOWNGRADE)],
    )
    assert only(decision.answer).error_code is ErrorCode.NONE
    assert decision.change.features == Features({"transaction.version": 0}, 4)


@pytest.mark.parametrize(
    "update",
    [
        FeatureUpdate("nope.version", 1),
        FeatureUpdate("transaction.version", 3),
        FeatureUpdate("transaction.version", 1),
        FeatureUpdate("transaction.version", 2, 7),
    ],
)
def test_a_feature_level_that_cannot_be_reached_moves_nothing(update):
    decision = update_features(
        with_features(transaction_version=2, group_version=0),
        [FeatureUpdate("group.version", 1), update],
    )
    assert decision.answer[1].error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert decision.change == ImageChange()


def test_producer_id_blocks_follow_each_other():
    first = allocate_producer_ids(view(), 1)
    assert (first.answer.first, first.answer.size) == (0, 1000)
    image = MetadataImage().apply(first.change)
    assert allocate_producer_ids(view(image), 1).answer.first == 1000
