"""The marks of a sink: no monitor counts them as lag, and old ones still count."""

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.group_offsets import (
    GroupMetadata,
    OffsetAndMetadata,
    commit_offsets,
    committed_offsets,
)
from floodmark.client.offsets import OffsetSpec, offsets_or_raise
from floodmark.pipeline.datasource.batch_marks import Repeatable
from floodmark.pipeline.datasource.batch_writers import plan_write
from floodmark.pipeline.datasource.mark_store import MARKS_TOPIC
from floodmark.pipeline.datasource.options import WriteOptions, parse_write_options
from floodmark.pipeline.datasource.task_writes import write_rows_once
from floodmark.pipeline.errors import ExactlyOnceError, PipelineError
from floodmark.testing import Broker
from kit.topics import read_topic


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def options_for(broker: Broker, topic: str | None) -> WriteOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    return parse_write_options(given if topic is None else {**given, "topic": topic})


def write(
    broker: Broker, topic: str, number: int, *values: bytes, query: str = "q", tasks: int = 1
) -> None:
    """One batch, planned by the driver and written by its only task."""
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})
    repeatable = Repeatable(query, number, tasks, topic)
    options = options_for(broker, topic)
    asyncio.run(plan_write(options, repeatable, 0))
    asyncio.run(write_rows_once(options, repeatable, iter([batch])))


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in read_topic(broker.bootstrap_servers, topic)]


async def lags(servers: str) -> dict[str, int]:
    """What a monitor computes: for each group, ends less committed offsets."""
    found: dict[str, int] = {}
    async with Admin(servers) as admin, Cluster(servers) as cluster:
        for group in await admin.list_groups():
            committed = await committed_offsets(cluster, group.group_id)
            ends = await offsets_or_raise(cluster, dict.fromkeys(committed, int(OffsetSpec.LATEST)))
            found[group.group_id] = sum(ends[p].offset - committed[p].offset for p in committed)
    return found


def commit_old(broker: Broker, topic: str, marks: dict[str, tuple[int, str]]) -> None:
    """Marks as 0.1.0 stored them."""

    async def commit() -> None:
        async with Cluster(broker.bootstrap_servers) as cluster:
            for group, (batch, text) in marks.items():
                offsets = {TopicPartition(topic, 0): OffsetAndMetadata(batch, text)}
                await commit_offsets(cluster, GroupMetadata(group), offsets)

    asyncio.run(commit())


def test_no_mark_shows_as_lag_however_much_is_written(broker: Broker) -> None:
    topic = broker.create_topic()
    for number in range(3):
        write(broker, topic, number, *[b"%d" % i for i in range(100)])
    found = asyncio.run(lags(broker.bootstrap_servers))
    assert found == {"floodmark-sink-q": 0, "floodmark-sink-q-0": 0}
    assert read_topic(broker.bootstrap_servers, MARKS_TOPIC) == []


def test_a_repeated_task_writes_nothing_and_the_next_batch_follows(broker: Broker) -> None:
    topic = broker.create_topic()
    write(broker, topic, 0, b"a")
    write(broker, topic, 0, b"a")
    write(broker, topic, 1, b"b")
    assert values(broker, topic) == [b"a", b"b"]


def test_marks_of_an_older_version_count_and_are_replaced(broker: Broker) -> None:
    topic = broker.create_topic()
    write(broker, topic, 0, b"a", query="other")
    old = {"floodmark-sink-q": (4, "tasks=1 rows=0"), "floodmark-sink-q-0": (4, "tasks=1 rows=1")}
    commit_old(broker, topic, old)
    # Its last batch was complete, and is repeated after the upgrade.
    write(broker, topic, 4, b"b")
    assert values(broker, topic) == [b"a"]
    with pytest.raises(ExactlyOnceError, match="started with 1 tasks"):
        write(broker, topic, 4, b"b", tasks=2)
    write(broker, topic, 5, b"c")
    write(broker, topic, 5, b"c")
    assert values(broker, topic) == [b"a", b"c"]
    assert set(asyncio.run(lags(broker.bootstrap_servers)).values()) == {0}


def test_a_batch_that_began_for_one_topic_is_not_repeated_into_another(broker: Broker) -> None:
    topic, other = broker.create_topic(), broker.create_topic()
    write(broker, topic, 0, b"a")
    with pytest.raises(ExactlyOnceError, match=f"for the topic {topic} and would be repeated for"):
        write(broker, other, 0, b"a")
    write(broker, other, 1, b"b")
    assert values(broker, other) == [b"b"]


def test_a_mark_that_someone_else_wrote_is_not_believed(broker: Broker) -> None:
    topic = broker.create_topic()
    write(broker, topic, 0, b"a")
    commit_old(broker, MARKS_TOPIC, {"floodmark-sink-q": (0, "hello")})
    with pytest.raises(ExactlyOnceError, match="a mark reads 'hello'"):
        write(broker, topic, 1, b"b")


def test_rows_of_several_topics_and_their_mark_are_one_transaction(broker: Broker) -> None:
    first, second = broker.create_topic(), broker.create_topic()
    repeatable = Repeatable("q", 0, 1)
    options = options_for(broker, None)
    asyncio.run(plan_write(options, repeatable, 0))

    def rows(*topics: str | None) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch(
            {"topic": pa.array([first, second]), "value": pa.array([b"a", b"b"], pa.binary())}
        )
        if topics:
            yield pa.record_batch(
                {"topic": pa.array(topics, pa.string()), "value": pa.array([b"c"], pa.binary())}
            )

    with pytest.raises(PipelineError, match="a row has no topic"):
        asyncio.run(write_rows_once(options, repeatable, rows(None)))
    assert values(broker, first) == values(broker, second) == []
    for _ in range(2):
        asyncio.run(write_rows_once(options, repeatable, rows(first)))
    assert values(broker, first) == [b"a", b"c"]
    assert values(broker, second) == [b"b"]
