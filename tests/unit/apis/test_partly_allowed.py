"""Partly allowed requests: the allowed part is done, the rest is refused or hidden."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

import floodmark.apis.handlers.produce as produce_handler
from floodmark.apis.authorizer import THE_CLUSTER, Operation, ResourceKind
from floodmark.apis.context import Services
from floodmark.network.principal import ANONYMOUS
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from floodmark.wire.messages.describe_cluster import DescribeClusterRequest
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from floodmark.wire.messages.describe_groups import DescribeGroupsRequest
from floodmark.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from floodmark.wire.messages.describe_transactions import DescribeTransactionsRequest
from floodmark.wire.messages.fetch import FetchRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.list_groups import ListGroupsRequest
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from floodmark.wire.messages.list_transactions import ListTransactionsRequest
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from floodmark.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from floodmark.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.authorizers import Permission, Permits, plug_in
from kit.plain_requests import begin_transactions, commit, fetch_request, produce, produce_request
from kit.waiting import wait_for

OK, TOPIC, GROUP = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
MINE, THEIRS = "mine", "theirs"


def on_topic(operation: Operation, name: str = MINE) -> Permission:
    return operation, ResourceKind.TOPIC, name


def on_group(operation: Operation, name: str = MINE) -> Permission:
    return operation, ResourceKind.GROUP, name


def on_cluster(operation: Operation) -> Permission:
    return operation, *THE_CLUSTER


def on_transaction(operation: Operation, name: str = MINE) -> Permission:
    return operation, ResourceKind.TRANSACTIONAL_ID, name


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """With two topics, groups and transactional ids: one is the client's."""
    with BrokerThread() as broker:
        for name in (MINE, THEIRS):
            broker.create_topic(name)
            produce(broker, name, 3)
        for name in (MINE, THEIRS):
            broker.call(commit(broker, name, MINE, 1))
            broker.call(commit(broker, name, THEIRS, 2))
            with RawClient(broker.bootstrap_servers) as client:
                begin_transactions(client, name)
        yield broker


@pytest.fixture
def permits(broker: BrokerThread) -> Permits:
    permits = Permits()
    plug_in(broker, permits)
    return permits


@pytest.fixture
def client(broker: BrokerThread, permits: Permits) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def topic_id(broker: BrokerThread, name: str) -> Any:
    return broker.broker.services.image.topics[name].topic_id


def test_the_authorizer_is_told_who_asks_and_from_where(
    client: RawClient, permits: Permits
) -> None:
    client.ask(fetch_request(MINE, 0), 12)
    assert permits.principals == {(ANONYMOUS, "127.0.0.1")}
    assert str(ANONYMOUS) == "User:ANONYMOUS"


def test_a_produce_appends_what_is_allowed(
    broker: BrokerThread, client: RawClient, permits: Permits
) -> None:
    permits.change(on_topic(Operation.WRITE))
    request = produce_request(THEIRS)
    request.topic_data += produce_request(MINE).topic_data
    answers = {
        topic.name: (partition.error_code, partition.base_offset)
        for topic in client.ask(request, 12).responses
        for partition in topic.partition_responses
    }
    assert answers == {MINE: (OK, 3), THEIRS: (TOPIC, -1)}
    replica = broker.broker.replicas.find((THEIRS, 0))
    assert replica is not None
    assert replica.log.log_end_offset == 3


def test_a_produce_without_an_answer_appends_and_then_ends_the_connection(
    broker: BrokerThread, client: RawClient, permits: Permits
) -> None:
    permits.change(on_topic(Operation.WRITE))
    request = produce_request(THEIRS, acks=0)
    request.topic_data += produce_request(MINE).topic_data
    replica = broker.broker.replicas.find((MINE, 0))
    assert replica is not None
    end_offset = replica.log.log_end_offset
    client.send_frame(request_bytes(request, 12))
    assert client.is_closed()
    assert replica.log.log_end_offset == end_offset + 1


def test_a_fetch_reads_what_is_allowed(client: RawClient, permits: Permits) -> None:
    permits.change(on_topic(Operation.READ))
    request = fetch_request(MINE, 0)
    request.topics += fetch_request(THEIRS, 0).topics
    answer = client.ask(request, 12)
    read = {
        t.topic: (t.partitions[0].error_code, bool(t.partitions[0].records))
        for t in answer.responses
    }
    assert read == {MINE: (OK, True), THEIRS: (TOPIC, False)}


def test_a_session_ends_with_the_permission(client: RawClient, permits: Permits) -> None:
    permits.change(on_topic(Operation.READ))
    first = fetch_request(MINE, 0)
    first.session_id, first.session_epoch = 0, 0
    session_id = client.ask(first, 12).session_id
    assert session_id
    permits.change()
    again = FetchRequest(session_id=session_id, session_epoch=1, max_bytes=1_000_000)
    (topic,) = client.ask(again, 12).responses
    assert (topic.partitions[0].error_code, topic.partitions[0].records) == (TOPIC, b"")


def test_a_replica_needs_cluster_action_to_fetch(client: RawClient, permits: Permits) -> None:
    request = fetch_request(MINE, 0)
    request.replica_id = 7
    permits.change(on_topic(Operation.READ))
    assert client.ask(request, 12).responses[0].partitions[0].error_code == TOPIC
    permits.change(on_cluster(Operation.CLUSTER_ACTION))
    assert client.ask(request, 12).responses[0].partitions[0].error_code != TOPIC


def test_offsets_are_listed_of_what_is_allowed(client: RawClient, permits: Permits) -> None:
    permits.change(on_topic(Operation.DESCRIBE))
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-2)]
    topics = [ListOffsetsTopic(name=name, partitions=partitions) for name in (THEIRS, MINE)]
    answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    listed = {t.name: (t.partitions[0].error_code, t.partitions[0].offset) for t in answer.topics}
    assert listed == {MINE: (OK, 0), THEIRS: (TOPIC, -1)}


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_metadata_shows_what_may_be_described(
    client: RawClient, permits: Permits, version: int
) -> None:
    permits.change(on_topic(Operation.DESCRIBE))
    named = MetadataRequest(
        topics=[MetadataRequestTopic(name=MINE), MetadataRequestTopic(name=THEIRS)],
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=version >= 8,
    )
    topics = {topic.name: topic for topic in client.ask(named, version).topics}
    assert (topics[MINE].error_code, len(topics[MINE].partitions)) == (OK, 1)
    assert (topics[THEIRS].error_code, topics[THEIRS].partitions) == (TOPIC, [])
    if version >= 8:
        assert topics[MINE].topic_authorized_operations == 1 << Operation.DESCRIBE
    everything = MetadataRequest(topics=None if version else [])
    assert [topic.name for topic in client.ask(everything, version).topics] == [MINE]


def test_a_denied_name_does_not_turn_into_all_topics(client: RawClient, permits: Permits) -> None:
    permits.change(on_topic(Operation.DESCRIBE))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=THEIRS)])
    assert [topic.name for topic in client.ask(request, 0).topics] == [THEIRS]


def test_metadata_by_id_hides_the_name(
    broker: BrokerThread, client: RawClient, permits: Permits
) -> None:
    hidden = topic_id(broker, THEIRS)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=hidden)])
    (topic,) = client.ask(request, 12).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (TOPIC, None, hidden)


def test_metadata_creates_topics_only_with_the_right_to(
    broker: BrokerThread, client: RawClient, permits: Permits
) -> None:
    names = ("new-1", "new-2")
    describes = [on_topic(Operation.DESCRIBE, name) for name in names]
    permits.change(*describes, on_topic(Operation.CREATE, "new-1"))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    topics = {topic.name: topic.error_code for topic in client.ask(request, 9).topics}
    assert topics == {"new-1": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new-2": TOPIC}
    assert "new-2" not in broker.broker.services.image.topics


def test_topics_are_paged_without_the_hidden_ones(client: RawClient, permits: Permits) -> None:
    permits.change(on_topic(Operation.DESCRIBE))
    everything = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1)
    page = client.ask(everything, 0)
    assert ([topic.name for topic in page.topics], page.next_cursor) == ([MINE], None)
    named = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=THEIRS)])
    (topic,) = client.ask(named, 0).topics
    assert (topic.error_code, topic.partitions) == (TOPIC, [])


def test_a_commit_keeps_what_is_allowed(client: RawClient, permits: Permits) -> None:
    permits.change(on_group(Operation.READ), on_topic(Operation.READ))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name=n, partitions=[partition]) for n in (THEIRS, MINE)]
    request = OffsetCommitRequest(group_id=MINE, topics=topics)
    answer = client.ask(request, 8)
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {MINE: OK, THEIRS: TOPIC}


@pytest.mark.parametrize("version", [1, 7, 8, 10])
def test_committed_offsets_are_shown_of_what_may_be_described(
    broker: BrokerThread, client: RawClient, permits: Permits, version: int
) -> None:
    permits.change(on_group(Operation.DESCRIBE), on_topic(Operation.DESCRIBE))
    ids = {topic_id(broker, name): name for name in (MINE, THEIRS)}

    def ask(names: list[str] | None) -> dict[str, tuple[int, int]]:
        if version < 8:
            topics = None
            if names is not None:
                topics = [OffsetFetchRequestTopic(name=n, partition_indexes=[0]) for n in names]
            answer = client.ask(OffsetFetchRequest(group_id=MINE, topics=topics), version)
        else:
            wanted = None
            if names is not None:
                wanted = [
                    OffsetFetchRequestTopics(
                        name=n, topic_id=topic_id(broker, n), partition_indexes=[0]
                    )
                    for n in names
                ]
            groups = [OffsetFetchRequestGroup(group_id=MINE, topics=wanted)]
            (answer,) = client.ask(OffsetFetchRequest(groups=groups), version).groups
        assert answer.error_code == OK
        return {
            (ids[topic.topic_id] if version >= 10 else topic.name): (
                topic.partitions[0].error_code,
                topic.partitions[0].committed_offset,
            )
            for topic in answer.topics
        }

    assert ask([THEIRS, MINE]) == {MINE: (OK, 1), THEIRS: (TOPIC, -1)}
    if version > 1:
        assert ask(None) == {MINE: (OK, 1)}


def test_offsets_of_several_groups(client: RawClient, permits: Permits) -> None:
    permits.change(on_group(Operation.DESCRIBE), on_topic(Operation.DESCRIBE))
    topics = [OffsetFetchRequestTopics(name=n, partition_indexes=[0]) for n in (THEIRS, MINE)]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in (THEIRS, MINE)]
    answer = client.ask(OffsetFetchRequest(groups=groups), 9)
    told = {
        group.group_id: (
            group.error_code,
            {topic.name: topic.partitions[0].error_code for topic in group.topics},
        )
        for group in answer.groups
    }
    assert told == {MINE: (OK, {MINE: OK, THEIRS: TOPIC}), THEIRS: (GROUP, {})}


def test_groups_are_found_described_and_listed(client: RawClient, permits: Permits) -> None:
    permits.change(on_group(Operation.DESCRIBE))
    names = [THEIRS, MINE]
    found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=names), 4).coordinators
    assert {c.key: (c.error_code, c.node_id) for c in found} == {MINE: (OK, 1), THEIRS: (GROUP, -1)}
    request = DescribeGroupsRequest(groups=names, include_authorized_operations=True)
    described = {group.group_id: group for group in client.ask(request, 5).groups}
    assert {name: group.error_code for name, group in described.items()} == {
        MINE: OK,
        THEIRS: GROUP,
    }
    assert described[MINE].authorized_operations == 1 << Operation.DESCRIBE
    assert [group.group_id for group in client.ask(ListGroupsRequest(), 4).groups] == [MINE]
    permits.change(on_cluster(Operation.DESCRIBE))
    assert len(client.ask(ListGroupsRequest(), 4).groups) == 2


def test_transactions_are_described_and_listed(client: RawClient, permits: Permits) -> None:
    permits.change(on_transaction(Operation.DESCRIBE))
    request = DescribeTransactionsRequest(transactional_ids=[THEIRS, MINE])
    states = client.ask(request, 0).transaction_states
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert {s.transactional_id: s.error_code for s in states} == {MINE: OK, THEIRS: denied}
    listed = client.ask(ListTransactionsRequest(), 0).transaction_states
    assert [state.transactional_id for state in listed] == [MINE]


def test_one_denied_topic_keeps_all_out_of_a_transaction(
    client: RawClient, permits: Permits
) -> None:
    permits.change(on_transaction(Operation.WRITE), on_topic(Operation.WRITE))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=MINE,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (MINE, THEIRS)
        ],
    )
    results = client.ask(request, 3).results_by_topic_v3_and_below
    codes = {t.name: t.results_by_partition[0].partition_error_code for t in results}
    assert codes == {MINE: ErrorCode.OPERATION_NOT_ATTEMPTED, THEIRS: TOPIC}


def test_one_denied_topic_refuses_a_subscription(client: RawClient, permits: Permits) -> None:
    permits.change(on_group(Operation.READ), on_topic(Operation.DESCRIBE))
    request = ConsumerGroupHeartbeatRequest(
        group_id=MINE, member_id="m", subscribed_topic_names=[MINE, THEIRS]
    )
    assert client.ask(request, 1).error_code == TOPIC


def test_a_pattern_finds_only_topics_that_may_be_described(
    broker: BrokerThread, client: RawClient, permits: Permits
) -> None:
    permits.change(on_group(Operation.READ, "seeker"), on_topic(Operation.DESCRIBE))
    request = ConsumerGroupHeartbeatRequest(
        group_id="seeker",
        member_id="m",
        subscribed_topic_names=[],
        subscribed_topic_regex=f"{MINE}|{THEIRS}",
        rebalance_timeout_ms=10_000,
        topic_partitions=[],
    )
    wait_for(lambda: client.ask(request, 1).error_code != ErrorCode.NOT_COORDINATOR)
    told = client.ask(request, 1)
    assert told.error_code == OK, told
    assert [t.topic_id for t in told.assignment.topic_partitions] == [topic_id(broker, MINE)]


def test_an_idempotent_producer_may_write_to_some_topic(
    client: RawClient, permits: Permits
) -> None:
    request = InitProducerIdRequest(transactional_id=None)
    assert client.ask(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    permits.change(on_topic(Operation.WRITE))
    assert client.ask(request, 4).error_code == OK
    permits.change(on_cluster(Operation.IDEMPOTENT_WRITE))
    assert client.ask(request, 4).error_code == OK


@pytest.mark.parametrize("operation", [Operation.ALTER, Operation.CLUSTER_ACTION])
def test_markers_are_for_brokers_and_administrators(
    client: RawClient, permits: Permits, operation: Operation
) -> None:
    permits.change(on_cluster(operation))
    assert client.ask(WriteTxnMarkersRequest(markers=[]), 1).markers == []
    assert permits.asked


def test_epoch_ends_are_for_brokers_and_readers(client: RawClient, permits: Permits) -> None:
    partitions = [OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    topics = [OffsetForLeaderTopic(topic=name, partitions=partitions) for name in (THEIRS, MINE)]
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)

    def codes() -> dict[str, int]:
        return {t.topic: t.partitions[0].error_code for t in client.ask(request, 3).topics}

    permits.change(on_topic(Operation.DESCRIBE))
    assert codes() == {MINE: OK, THEIRS: TOPIC}
    permits.change(on_cluster(Operation.CLUSTER_ACTION))
    assert codes() == {MINE: OK, THEIRS: OK}


def test_settings_are_described_by_kind_of_resource(client: RawClient, permits: Permits) -> None:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in ((2, MINE), (2, THEIRS), (4, "1"), (32, THEIRS))
    ]

    def codes() -> dict[tuple[int, str], int]:
        answer = client.ask(DescribeConfigsRequest(resources=resources), 4)
        return {(r.resource_type, r.resource_name): r.error_code for r in answer.results}

    permits.change(on_topic(Operation.DESCRIBE_CONFIGS))
    assert codes() == {
        (2, MINE): OK,
        (2, THEIRS): TOPIC,
        (4, "1"): ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        (32, THEIRS): GROUP,
    }
    permits.change(on_cluster(Operation.DESCRIBE_CONFIGS))
    assert codes()[4, "1"] == OK


def test_resources_of_all_kinds_are_refused_together(client: RawClient, permits: Permits) -> None:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name="1", configuration_keys=None)
        for kind in (2, 32, 4)
    ]
    answer = client.ask(DescribeConfigsRequest(resources=resources), 4)
    assert {result.resource_type: result.error_code for result in answer.results} == {
        2: TOPIC,
        32: GROUP,
        4: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }


def test_a_created_topic_shows_its_settings_only_with_the_right_to(
    client: RawClient, permits: Permits
) -> None:
    permits.change(on_topic(Operation.CREATE, "made"))
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in ("made", "not-made")
        ]
    )
    topics = {topic.name: topic for topic in client.ask(request, 7).topics}
    assert (topics["made"].error_code, topics["not-made"].error_code) == (OK, TOPIC)
    made = topics["made"]
    assert (made.configs, made.num_partitions, made.topic_config_error_code) == ([], -1, TOPIC)


def test_topics_are_deleted_by_who_may_and_unseen_ones_are_not_told_apart(
    broker: BrokerThread, client: RawClient, permits: Permits
) -> None:
    plug_in(broker, Permits(on_topic(Operation.DESCRIBE)))
    by_id = [DeleteTopicState(name=None, topic_id=topic_id(broker, n)) for n in (MINE, THEIRS)]
    told = client.ask(DeleteTopicsRequest(topics=by_id), 6).responses
    assert [(t.name, t.error_code) for t in told] == [(MINE, TOPIC), (None, TOPIC)]
    seen = Permits(on_topic(Operation.DESCRIBE, "absent-seen"))
    plug_in(broker, seen)
    names = ["absent-seen", "absent-unseen", THEIRS]
    told = client.ask(DeleteTopicsRequest(topic_names=names), 5).responses
    assert {t.name: t.error_code for t in told} == {
        "absent-seen": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "absent-unseen": TOPIC,
        THEIRS: TOPIC,
    }


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A broker that knows no topic id until something is in this list."""
    known: list[str] = []
    real = Services.topic_name

    def topic_name(services: Services, topic_id: UUID) -> str | None:
        return real(services, topic_id) if known else None

    monkeypatch.setattr(Services, "topic_name", topic_name)
    return known


@pytest.mark.usefixtures("learning")
def test_a_topic_is_not_deleted_by_an_id_that_only_the_controller_knows(
    broker: BrokerThread, client: RawClient, permits: Permits
) -> None:
    by_id = [DeleteTopicState(name=None, topic_id=topic_id(broker, THEIRS))]
    told = client.ask(DeleteTopicsRequest(topics=by_id), 6).responses
    assert [(t.name, t.error_code) for t in told] == [(None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert THEIRS in broker.broker.services.image.topics


def test_a_produce_by_an_id_that_becomes_known_while_it_waits_is_refused(
    broker: BrokerThread,
    client: RawClient,
    permits: Permits,
    learning: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def slow_validation(context: object, request: object) -> dict[int, Any]:
        learning.append(THEIRS)
        return {}

    monkeypatch.setattr(produce_handler, "validate_deeply", slow_validation)
    request = produce_request("")
    request.topic_data[0].topic_id = topic_id(broker, THEIRS)
    (told,) = client.ask(request, 13).responses
    assert told.topic_id == request.topic_data[0].topic_id
    assert told.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_operations_on_the_cluster_are_told(client: RawClient, permits: Permits) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    permits.change(on_cluster(Operation.ALTER))
    assert client.ask(request, 0).cluster_authorized_operations == 0
    permits.change(on_cluster(Operation.ALTER), on_cluster(Operation.DESCRIBE))
    expected = 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    assert client.ask(request, 0).cluster_authorized_operations == expected
