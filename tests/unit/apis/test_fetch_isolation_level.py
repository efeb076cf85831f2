"""Fetch with an isolation level that means nothing: refused as by Kafka, not read uncommitted."""

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from fuzz_kit.raw_client import RawClient


def ask(
    floodmark: BrokerThread, topic: str, isolation_level: int, api_version: int
) -> FetchResponse:
    topic_id = floodmark.broker.services.image.topics[topic].topic_id
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
    )
    with RawClient(floodmark.bootstrap_servers) as client:
        answer = client.ask(request, api_version)
    assert isinstance(answer, FetchResponse)
    return answer


@pytest.mark.parametrize("isolation_level", [2, -1])
def test_an_isolation_level_that_means_nothing_is_refused(
    floodmark: BrokerThread, floodmark_topic: str, isolation_level: int
) -> None:
    answer = ask(floodmark, floodmark_topic, isolation_level, 17)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_old_answer_has_the_error_in_its_partitions(
    floodmark: BrokerThread, floodmark_topic: str
) -> None:
    (topic,) = ask(floodmark, floodmark_topic, 2, 4).responses
    (partition,) = topic.partitions
    assert topic.topic == floodmark_topic
    assert partition.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
