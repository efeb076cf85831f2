"""A request of a few bytes that creates ten thousand partitions, the most that Kafka allows.

Each partition took 7 KB as long as it existed, although nobody had written to it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from fuzz_kit.gauge import MOST_BYTES, Gauge
from fuzz_kit.raw_client import request_bytes
from kit.watched_broker import WatchedBroker, start_watched_broker

MOST_PARTITIONS = 10_000
TIMEOUT_S = 300.0


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    folder = tmp_path_factory.mktemp("partitions")
    watched = start_watched_broker(folder, {})
    with watched.broker.process:
        yield watched
    # So many files would slow down the runs that follow.
    shutil.rmtree(folder)


@pytest.fixture
def gauge(watched: WatchedBroker) -> Iterator[Gauge]:
    gauge = Gauge(watched, TIMEOUT_S)
    yield gauge
    gauge.finish()


def create_topics(*topics: tuple[str, int]) -> CreateTopicsRequest:
    wanted = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name, partitions in topics
    ]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=int(TIMEOUT_S * 1000))
    assert len(request_bytes(request, 5)) < MOST_BYTES
    return request


def test_a_topic_of_many_partitions_takes_little_memory(gauge: Gauge) -> None:
    request = create_topics(("t", MOST_PARTITIONS))
    answer = gauge.ask("CreateTopics", request, 5)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]


def test_many_topics_of_some_partitions_take_little_memory(gauge: Gauge) -> None:
    count = 330
    request = create_topics(*((f"{i:x}", MOST_PARTITIONS // count) for i in range(count)))
    answer = gauge.ask("CreateTopics", request, 5)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}


def test_many_more_partitions_of_a_topic_take_little_memory(gauge: Gauge) -> None:
    gauge.client.ask(create_topics(("grows", 1)), 5)
    topic = CreatePartitionsTopic(name="grows", count=1 + MOST_PARTITIONS, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=int(TIMEOUT_S * 1000))
    answer = gauge.ask("CreatePartitions", request, 3)
    assert [result.error_code for result in answer.results] == [ErrorCode.NONE]
