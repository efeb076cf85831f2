"""Requests that name the same thing twice, or nothing at all."""

import time
from collections.abc import Iterator

import pytest

from floodmark.records.batch import read_header
from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from floodmark.wire.messages.metadata import MetadataRequest
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t", 2)
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


# Produce


def test_no_batch_of_a_partition_named_twice_is_acknowledged_unless_it_is_safe(
    floodmark: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    floodmark.create_topic("synced", configs={"flush.messages": "1"})
    flusher = floodmark.broker.replicas._flusher
    # A sync that does not end.
    monkeypatch.setattr(flusher, "request", lambda replica: None)
    parts = [PartitionProduceData(index=0, records=batch()) for _ in range(2)]
    request = ProduceRequest(
        acks=-1, timeout_ms=50, topic_data=[TopicProduceData(name="synced", partition_data=parts)]
    )
    with RawClient(floodmark.bootstrap_servers) as client:
        (topic,) = client.ask(request, 9).responses
    assert [answer.error_code for answer in topic.partition_responses] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REQUEST_TIMED_OUT,
    ]


# Fetch


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_partition_that_is_fetched_often_is_answered_once_as_it_was_asked_for_last(
    client: RawClient, version: int
) -> None:
    produce(client, "t", 1)
    produce(client, "t", 1)
    topic_id = client.ask(MetadataRequest(topics=None), 12).topics[0].topic_id
    asked = [(0, 0), (1, 0), (0, 0), (0, 1)]
    topics = [
        FetchTopic(
            topic="t",
            topic_id=topic_id,
            partitions=[
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            ],
        )
        for index, offset in asked
    ]
    response = client.ask(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=topics), version)
    (topic,) = response.responses
    assert [p.partition_index for p in topic.partitions] == [0, 1]
    assert read_header(topic.partitions[0].records).base_offset == 1


# ListOffsets


def test_a_partition_whose_offset_is_asked_for_twice_is_an_invalid_request(
    client: RawClient,
) -> None:
    answers = list_offsets(client, ("t", 0, -1), ("t", 1, -1), ("t", 0, -2), ("x", 0, -1))
    assert answers == [("t", 0, ErrorCode.INVALID_REQUEST), ("t", 1, 0), ("x", 0, UNKNOWN)]


@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
@pytest.mark.parametrize(("topic", "partition"), [("t", 0), ("t", -1), ("x", 0)])
def test_a_timestamp_that_means_nothing_is_refused_before_the_partition_is_looked_for(
    client: RawClient, topic: str, partition: int, timestamp: int
) -> None:
    answers = list_offsets(client, (topic, partition, timestamp))
    assert answers == [(topic, partition, ErrorCode.UNSUPPORTED_VERSION)]


@pytest.mark.parametrize("isolation_level", [2, -1])
def test_an_isolation_level_that_means_nothing_is_kafkas_unknown_error(
    client: RawClient, isolation_level: int
) -> None:
    asked = [("t", 0, -1), ("x", 0, -1), ("t", 0, -7)]
    assert list_offsets(client, *asked, isolation_level=isolation_level) == [
        (topic, index, ErrorCode.UNKNOWN_SERVER_ERROR) for topic, index, _ in asked
    ]
    assert list_offsets(client, isolation_level=isolation_level) == []


def list_offsets(
    client: RawClient, *asked: tuple[str, int, int], isolation_level: int = 0
) -> list[tuple[str, int, ErrorCode]]:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)],
        )
        for topic, index, timestamp in asked
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    response = client.ask(request, 11)
    return [
        (topic.name, p.partition_index, p.error_code)
        for topic in response.topics
        for p in topic.partitions
    ]


# DeleteRecords


def test_the_last_of_two_offsets_counts_when_records_are_deleted(client: RawClient) -> None:
    produce(client, "t", 5)
    wanted = [("t", 0, 4), ("t", 0, 2), ("t", -1, 0)]
    topics = [
        DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
        )
        for name, index, offset in wanted
    ]
    (topic,) = client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2).topics
    assert [(p.partition_index, p.low_watermark, p.error_code) for p in topic.partitions] == [
        (0, 2, ErrorCode.NONE),
        (-1, -1, UNKNOWN),
    ]


def batch(count: int = 1) -> bytes:
    now_ms = int(time.time() * 1000)
    return bytes(encode_batch([Record(offset, now_ms, None, b"v", []) for offset in range(count)]))


def produce(client: RawClient, topic: str, count: int) -> None:
    data = PartitionProduceData(index=0, records=batch(count))
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    assert client.ask(request, 9).responses[0].partition_responses[0].error_code == ErrorCode.NONE


# Offsets of groups


def test_partitions_that_do_not_exist_are_told_in_one_entry_per_topic(client: RawClient) -> None:
    find_coordinator(client, "g")
    asked = [("t", 7), ("x", 1), ("t", -1), ("x", 0)]
    expected = {"t": [(7, UNKNOWN), (-1, UNKNOWN)], "x": [(1, UNKNOWN), (0, UNKNOWN)]}
    assert commit(client, asked) == expected
    assert commit(client, [*asked, ("t", 0)]) == {
        "t": [(0, ErrorCode.NONE), *expected["t"]],
        "x": expected["x"],
    }
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
        )
        for name, index in asked
    ]
    response = client.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    assert {
        topic.name: [(p.partition_index, p.error_code) for p in topic.partitions]
        for topic in response.topics
    } == expected


def commit(
    client: RawClient, asked: list[tuple[str, int]]
) -> dict[str, list[tuple[int, ErrorCode]]]:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=1)],
        )
        for name, index in asked
    ]
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    response = client.ask(request, 9)
    assert len({topic.name for topic in response.topics}) == len(response.topics)
    return {
        topic.name: [(p.partition_index, p.error_code) for p in topic.partitions]
        for topic in response.topics
    }


# FindCoordinator


def test_who_looks_for_no_coordinator_makes_no_topic(client: RawClient) -> None:
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[])
        assert client.ask(request, 4).coordinators == []
    topics = client.ask(MetadataRequest(topics=None), 9).topics
    assert [topic.name for topic in topics] == ["t"]


def find_coordinator(client: RawClient, group_id: str) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
    assert client.ask(request, 4).coordinators[0].error_code == ErrorCode.NONE
