"""A request of a few bytes that creates ten thousand partitions, the most that Kafka allows.

Each partition took 7 KB as long as it existed, although nobody had written to it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

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

# On a slow machine the partitions of earlier requests would be counted, too.
SETTINGS = {
    "replica.high.watermark.checkpoint.interval.ms": "600000",
    "log.flush.offset.checkpoint.interval.ms": "600000",
    "log.flush.start.offset.checkpoint.interval.ms": "600000",
}


@pytest.fixture
def watched() -> Iterator[WatchedBroker]:
    # On a disk, so many files would slow down this test and those that follow.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        watched = start_watched_broker(Path(folder), SETTINGS)
        with watched.broker.process:
            yield watched


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
