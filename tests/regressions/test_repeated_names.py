"""A small request about much: names that are repeated, and transactions of many partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from floodmark.client.cluster.cluster import CoordinatorType
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from floodmark.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from floodmark.wire.messages.describe_groups import DescribeGroupsRequest
from floodmark.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from floodmark.wire.messages.describe_transactions import DescribeTransactionsRequest
from floodmark.wire.messages.end_txn import EndTxnRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from floodmark.wire.messages.list_transactions import ListTransactionsRequest
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from floodmark.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from floodmark.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from floodmark.wire.numbers import ResourceType
from fuzz_kit.gauge import MOST_BYTES, Gauge
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.watched_broker import WatchedBroker, start_watched_broker

PARTITIONS = 520
"""Half as many as one request of 4 KB can name: they are made once per worker."""

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
WITHIN_S = 60.0
COMING_UP = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    watched = start_watched_broker(tmp_path_factory.mktemp("names"), SETTINGS)
    with watched.broker.process, RawClient(watched.broker.bootstrap, WITHIN_S) as client:
        topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
        for kind in CoordinatorType.GROUP, CoordinatorType.TRANSACTION:
            find = FindCoordinatorRequest(coordinator_keys=["any"], key_type=kind)
            until_it_is_there(
                lambda find=find: client.ask(find, 4),
                lambda answer: answer.coordinators[0].error_code,
            )
        commit_everywhere(client)
        join_with_much_metadata(client)
        open_transaction(client)
        yield watched


@pytest.fixture
def gauge(watched: WatchedBroker) -> Iterator[Gauge]:
    gauge = Gauge(watched)
    yield gauge
    gauge.finish()


def until_it_is_there(ask: Callable[[], Any], code: Callable[[Any], int]) -> Any:
    """Asks again while a coordinator is coming up."""
    deadline = time.monotonic() + WITHIN_S
    while code(answer := ask()) in COMING_UP and time.monotonic() < deadline:
        time.sleep(0.05)
    assert code(answer) == ErrorCode.NONE
    return answer


def commit_everywhere(client: RawClient) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    until_it_is_there(
        lambda: client.ask(OffsetCommitRequest(group_id="g", topics=topics), 8),
        lambda answer: answer.topics[0].partitions[0].error_code,
    )


def join_with_much_metadata(client: RawClient) -> None:
    join = JoinGroupRequest(
        group_id="m",
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="p", metadata=bytes(500_000))],
    )
    joined = until_it_is_there(lambda: client.ask(join, 3), lambda answer: answer.error_code)
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    sync = SyncGroupRequest(
        group_id="m",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assignment],
    )
    assert client.ask(sync, 3).error_code == 0


def open_transaction(client: RawClient) -> tuple[int, int]:
    """Producer id and epoch of a transaction in all partitions."""
    begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=600_000)
    producer = until_it_is_there(lambda: client.ask(begin, 3), lambda answer: answer.error_code)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[*range(PARTITIONS)])],
    )
    until_it_is_there(
        lambda: client.ask(add, 3),
        lambda answer: (
            answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        ),
    )
    return producer.producer_id, producer.producer_epoch


def repeated(gauge: Gauge, message: Any, version: int) -> Any:
    assert MOST_BYTES // 2 < len(request_bytes(message, version)) < MOST_BYTES
    return gauge.ask(type(message).__name__, message, version)


def test_a_group_that_is_named_often_is_described_once(gauge: Gauge) -> None:
    (group,) = repeated(gauge, DescribeGroupsRequest(groups=["m"] * 1900), 5).groups
    assert len(group.members[0].member_metadata) == 500_000


def test_a_consumer_group_that_is_named_often_is_described_once(gauge: Gauge) -> None:
    answer = repeated(gauge, ConsumerGroupDescribeRequest(group_ids=["m"] * 1900), 1)
    assert [group.group_id for group in answer.groups] == ["m"]


def test_all_offsets_of_a_group_that_is_named_often_come_once(gauge: Gauge) -> None:
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None) for _ in range(900)]
    (group,) = repeated(gauge, OffsetFetchRequest(groups=groups), 8).groups
    assert len(group.topics[0].partitions) == PARTITIONS


def test_a_transaction_that_is_named_often_is_described_once(gauge: Gauge) -> None:
    answer = repeated(gauge, DescribeTransactionsRequest(transactional_ids=["x"] * 1900), 0)
    (state,) = answer.transaction_states
    assert len(state.topics[0].partitions) == PARTITIONS


def test_producers_of_a_partition_that_is_named_often_come_once(gauge: Gauge) -> None:
    topics = [TopicRequest(name="t", partition_indexes=[0] * 450) for _ in range(2)]
    (topic,) = repeated(gauge, DescribeProducersRequest(topics=topics), 0).topics
    assert [partition.partition_index for partition in topic.partitions] == [0]


def test_settings_of_a_broker_that_is_named_often_come_once(gauge: Gauge) -> None:
    node_id = gauge.client.ask(MetadataRequest(topics=[]), 12).brokers[0].node_id
    resources = [
        DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name=str(node_id))
        for _ in range(790)
    ]
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=True
    )
    (result,) = repeated(gauge, request, 4).results
    assert len(result.configs) > 100


def test_settings_that_nobody_knows_do_not_make_others_slow(gauge: Gauge) -> None:
    """Each was looked up in the list of all settings, for each of the resources asked for."""
    node_id = str(gauge.client.ask(MetadataRequest(topics=[]), 12).brokers[0].node_id)
    unknown = [AlterableConfig(name=f"x{number}", value="1") for number in range(1500)]
    resource = AlterConfigsResource(
        resource_type=ResourceType.BROKER, resource_name=node_id, configs=unknown
    )
    altered = gauge.client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert altered.responses[0].error_code == ErrorCode.NONE
    resources = [
        DescribeConfigsResource(
            resource_type=ResourceType.BROKER,
            resource_name=node_id,
            configuration_keys=[f"y{number}"],
        )
        for number in range(390)
    ]
    results = repeated(gauge, DescribeConfigsRequest(resources=resources), 4).results
    assert len(results) == 390


SLOW_PATTERN = "([ab]*){300}"
"""RE2 takes some milliseconds for each long name that consists of these letters."""


def test_a_pattern_that_is_slow_to_match_topics_stops_nobody(gauge: Gauge) -> None:
    names = [f"{number:b}".translate({48: "a", 49: "b"}).rjust(249, "a") for number in range(100)]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    gauge.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5)
    request = ConsumerGroupHeartbeatRequest(
        group_id="patterns",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=SLOW_PATTERN,
        topic_partitions=[],
    )
    answer = gauge.ask("heartbeat", request, 1)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    owned = answer.assignment.topic_partitions
    assert len({topic.topic_id for topic in owned}) == len(names)
    one_more = [CreatableTopic(name="b" * 200, num_partitions=1, replication_factor=1)]
    gauge.client.ask(CreateTopicsRequest(topics=one_more, timeout_ms=60_000), 5)
    request.member_epoch, request.subscribed_topic_regex = answer.member_epoch, None
    request.topic_partitions = None
    assert gauge.ask("the next heartbeat", request, 1).error_code == ErrorCode.NONE


def test_a_pattern_that_is_slow_to_match_transactions_stops_nobody(gauge: Gauge) -> None:
    random = Random(13)
    ids = {"".join(random.choices("ab", k=3000)) for _ in range(20)}
    for transactional_id in ids:
        begin = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        assert gauge.client.ask(begin, 3).error_code == ErrorCode.NONE
    request = ListTransactionsRequest(transactional_id_pattern=SLOW_PATTERN)
    found = gauge.ask("list", request, 2).transaction_states
    assert {state.transactional_id for state in found} == ids


def test_other_settings_of_the_same_topic_are_another_question(gauge: Gauge) -> None:
    resources = [
        DescribeConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name="t", configuration_keys=keys
        )
        for keys in (["retention.ms"], ["cleanup.policy"], ["retention.ms"])
    ]
    results = gauge.client.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [[entry.name for entry in result.configs] for result in results] == [
        ["retention.ms"],
        ["cleanup.policy"],
    ]


def test_named_topics_of_a_group_are_answered_as_often_as_they_are_asked_for(gauge: Gauge) -> None:
    groups = [OffsetFetchRequestGroup(group_id="g", topics=[]) for _ in range(2)]
    assert len(gauge.client.ask(OffsetFetchRequest(groups=groups), 8).groups) == 2


def test_settings_of_many_topics_are_described_in_turns(gauge: Gauge) -> None:
    names = [f"{number:03d}" for number in range(400)]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    gauge.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5)
    resources = [
        DescribeConfigsResource(resource_type=ResourceType.TOPIC, resource_name=name)
        for name in names
    ]
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=True
    )
    results = repeated(gauge, request, 4).results
    assert [result.resource_name for result in results] == names


def test_the_markers_of_one_request_are_written_in_turns(gauge: Gauge) -> None:
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=[*range(PARTITIONS)])
    marker = WritableTxnMarker(producer_id=4711, producer_epoch=0, topics=[topic])
    (answer,) = repeated(gauge, WriteTxnMarkersRequest(markers=[marker]), 1).markers
    assert {partition.error_code for partition in answer.topics[0].partitions} == {0}


def test_the_end_of_a_transaction_in_many_partitions_stops_nobody(gauge: Gauge) -> None:
    producer_id, producer_epoch = open_transaction(gauge.client)
    end = EndTxnRequest(
        transactional_id="x",
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=True,
    )
    assert gauge.ask("the end", end, 3).error_code == 0

    def state() -> str:
        described = gauge.ask("markers", DescribeTransactionsRequest(transactional_ids=["x"]), 0)
        text: str = described.transaction_states[0].transaction_state
        return text

    deadline = time.monotonic() + WITHIN_S
    while (found := state()) != "CompleteCommit" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == "CompleteCommit"
