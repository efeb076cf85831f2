"""Answers of one partition are filled in, not built, and nobody can tell."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from floodmark.apis.handlers import fetch
from floodmark.apis.prepared.fetch_answers import MOST_PARTITIONS
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.waiting import wait_for

BY_ID_SINCE = 13
NO_SESSION = -1
PARTITIONS = 3


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t", PARTITIONS)
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def produce(client: RawClient, value: bytes, index: int = 0, topic: str = "t") -> None:
    batch = bytes(encode_batch([Record(0, 1_700_000_000_000, None, value, [])]))
    data = PartitionProduceData(index=index, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    answer = client.ask(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def topic_id(floodmark: BrokerThread, topic: str = "t") -> UUID:
    return floodmark.broker.services.image.topics[topic].topic_id


def fetch_of(
    floodmark: BrokerThread, offsets: dict[int, int], max_wait_ms: int = 0, **more: Any
) -> FetchRequest:
    topic = FetchTopic(
        topic="t",
        topic_id=topic_id(floodmark),
        partitions=[
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in offsets.items()
        ],
    )
    more.setdefault("session_epoch", NO_SESSION)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic], **more
    )


def frames(client: RawClient, requests: list[bytes]) -> list[bytes]:
    answers = []
    for request in requests:
        client.send_frame(request)
        answers.append(client.read_frame())
    return answers


@pytest.mark.parametrize("version", range(4, 19))
def test_they_are_the_bytes_that_building_gives(
    floodmark: BrokerThread, client: RawClient, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index, value in enumerate([b"first", b"x" * 200, b"y" * 20_000]):
        produce(client, value, index)
    produce(client, b"second")
    wanted: list[dict[int, int]] = [{0: 0}, {0: 1}, {1: 0}, {2: 0}, {0: 2}, {0: 9}, {0: 0, 1: 0}]
    requests = [
        request_bytes(fetch_of(floodmark, offsets, isolation_level=isolation), version)
        for isolation in (0, 1)
        for offsets in wanted
    ]
    filled = frames(client, requests)
    assert frames(client, requests) == filled
    monkeypatch.setattr(fetch, "prepared_answer", lambda *_: None)
    assert frames(client, requests) == filled


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("isolation", [0, 1])
def test_who_has_waited_gets_the_bytes_that_who_comes_later_gets(
    floodmark: BrokerThread, client: RawClient, version: int, isolation: int
) -> None:
    waiting = floodmark.broker.services.replicas.fetches
    with RawClient(floodmark.bootstrap_servers) as producer:
        for offset, value in enumerate([b"first", b"x" * 200, b"y" * 20_000]):
            wanted = fetch_of(floodmark, {0: offset}, 30_000, isolation_level=isolation)
            request = request_bytes(wanted, version)
            client.send_frame(request)
            wait_for(lambda: len(waiting) == 1)
            produce(producer, value)
            waited = client.read_frame()
            assert frames(client, [request]) == [waited]


def test_they_carry_the_session_of_the_request(floodmark: BrokerThread, client: RawClient) -> None:
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    for _ in range(2):
        opened = client.ask(fetch_of(floodmark, offsets, session_epoch=0), 17)
        assert opened.session_id
        for epoch in (1, 2):
            replica = floodmark.broker.services.replicas.find(("t", 1))
            assert replica is not None
            end = replica.log.log_end_offset
            produce(client, b"news", index=1)
            request = fetch_of(
                floodmark, {1: end}, session_id=opened.session_id, session_epoch=epoch
            )
            answer = client.ask(request, 17)
            assert answer.session_id == opened.session_id
            (partition,) = answer.responses[0].partitions
            assert partition.partition_index == 1
            assert [record.value for record in decode_records(partition.records)] == [b"news"]


def test_one_partition_too_many_is_built_every_time(
    floodmark: BrokerThread, client: RawClient
) -> None:
    floodmark.create_topic("many", MOST_PARTITIONS + 1)
    for index in range(MOST_PARTITIONS + 1):
        produce(client, b"value", index, "many")
        topic = FetchTopic(topic_id=topic_id(floodmark, "many"), partitions=[])
        topic.partitions = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000)
        ]
        request = FetchRequest(
            max_wait_ms=0, max_bytes=1000, session_epoch=NO_SESSION, topics=[topic]
        )
        for _ in range(2):
            answer = client.ask(request, BY_ID_SINCE).responses[0].partitions[0]
            assert (answer.partition_index, answer.high_watermark) == (index, 1)
