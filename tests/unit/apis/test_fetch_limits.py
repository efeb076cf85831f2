"""Who may fetch how much, and what becomes of requests that cannot be served as they are."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from floodmark.apis.handlers.fetch import REPLICA_STATE_SINCE
from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient

BY_NAME = 12
BY_ID = 18


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t", 2)
    with RawClient(floodmark.bootstrap_servers) as client:
        for partition in (0, 1):
            for _ in range(2):
                produce(client, partition)
        yield client


def produce(client: RawClient, partition: int) -> None:
    batch = encode_batch([Record(0, int(time.time() * 1000), None, b"v", [])])
    data = PartitionProduceData(index=partition, records=bytes(batch))
    topic = TopicProduceData(name="t", partition_data=[data])
    response = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def fetch(
    client: RawClient,
    *partitions: FetchPartition,
    version: int = BY_NAME,
    replica_id: int = -1,
    max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
) -> list[PartitionData]:
    topic_id = client.ask(MetadataRequest(topics=None), 12).topics[0].topic_id
    request = FetchRequest(
        replica_id=-1 if version >= REPLICA_STATE_SINCE else replica_id,
        replica_state=ReplicaState(replica_id=replica_id if version >= REPLICA_STATE_SINCE else -1),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=list(partitions))],
    )
    (topic,) = client.ask(request, version).responses
    return list(topic.partitions)


def wanted(
    partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **fields: Any
) -> FetchPartition:
    return FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields
    )


# Who fetches


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize("is_own", [True, False])
def test_who_claims_to_be_a_replica_and_is_none_is_not_served_as_one(
    floodmark: BrokerThread, client: RawClient, version: int, is_own: bool
) -> None:
    replica_id = floodmark.broker.broker_id if is_own else 77
    (unknown,) = fetch(client, wanted(), version=version, replica_id=replica_id)
    assert unknown.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not unknown.records
    (knowing,) = fetch(
        client, wanted(current_leader_epoch=0), version=version, replica_id=replica_id
    )
    assert knowing.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    (fenced,) = fetch(
        client, wanted(current_leader_epoch=5), version=version, replica_id=replica_id
    )
    assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_as_in_kafka_a_claimed_replica_id_is_told_offsets(client: RawClient) -> None:
    """They are no secret: only records are kept from those who are no replicas."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name="t", partitions=[partition])
    response = client.ask(ListOffsetsRequest(replica_id=77, topics=[topic]), 7)
    assert response.topics[0].partitions[0].offset == 2


# What the reader has


@pytest.mark.parametrize(("leader_epoch", "offset"), [(5, 1), (5, 0), (1, 2)])
def test_a_last_fetched_epoch_that_is_not_known_is_out_of_range(
    client: RawClient, leader_epoch: int, offset: int
) -> None:
    (answer,) = fetch(client, wanted(offset=offset, last_fetched_epoch=leader_epoch))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.diverging_epoch.epoch == -1


def test_an_offset_before_the_log_is_out_of_range_and_no_divergence(client: RawClient) -> None:
    (answer,) = fetch(client, wanted(offset=-1, last_fetched_epoch=0))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_behind_the_end_of_its_epoch_diverges(client: RawClient) -> None:
    (answer,) = fetch(client, wanted(offset=9, last_fetched_epoch=0))
    assert answer.error_code == ErrorCode.NONE
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)


# How much


def test_a_negative_size_is_kafkas_unknown_error_where_there_is_something_to_read(
    client: RawClient,
) -> None:
    answers = fetch(client, wanted(0, max_bytes=-1), wanted(1))
    assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]
    assert answers[0].high_watermark == -1 and answers[1].records
    (at_the_end,) = fetch(client, wanted(0, offset=2, max_bytes=-1))
    assert at_the_end.error_code == ErrorCode.NONE
    (beyond,) = fetch(client, wanted(0, offset=3, max_bytes=-1))
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_negative_size_of_the_request_is_an_error_of_its_first_partition(
    client: RawClient,
) -> None:
    first, second = fetch(client, wanted(0), wanted(1), max_bytes=-1)
    assert first.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert second.error_code == ErrorCode.NONE and second.records


def test_nobody_waits_for_more_than_may_be_sent(client: RawClient) -> None:
    (answer,) = fetch(client, wanted(), min_bytes=1000, max_bytes=10, max_wait_ms=60_000)
    assert answer.records
