"""Sends fetch requests to partition leaders and interprets the response per partition.

Called by `consumer.py`, which owns the partitions' state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.fan_out import group_by_topic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError, error_of, raise_for_code
from floodmark.client.settings import ConsumerSettings
from floodmark.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from floodmark.wire.schema import ZERO_UUID

# The first version that identifies topics by id.
FIRST_VERSION_WITH_TOPIC_IDS = 13
NO_SESSION_EPOCH = -1


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    error: KafkaError | None
    records: memoryview
    aborted: Sequence[tuple[int, int]]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


async def fetch(
    cluster: Cluster,
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    settings: ConsumerSettings,
) -> dict[TopicPartition, PartitionAnswer]:
    """One long-polling fetch without a session: it names every partition each time."""
    request, max_version = _request(cluster, connection, offsets, settings)
    response: FetchResponse = await connection.request(
        request,
        timeout_ms=settings.request_timeout_ms + settings.fetch_max_wait_ms,
        max_version=max_version,
    )
    raise_for_code(response.error_code)
    return _answers(cluster, response)


def _request(
    cluster: Cluster,
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    settings: ConsumerSettings,
) -> tuple[FetchRequest, int | None]:
    view = cluster.view
    by_topic = group_by_topic(offsets)
    max_version = None
    if any(view.topic_id(topic) == ZERO_UUID for topic in by_topic):
        max_version = FIRST_VERSION_WITH_TOPIC_IDS - 1
    by_id = connection.version_for(FetchRequest, max_version) >= FIRST_VERSION_WITH_TOPIC_IDS
    topics = [
        FetchTopic(
            topic="" if by_id else topic,
            topic_id=view.topic_id(topic) if by_id else ZERO_UUID,
            partitions=[_partition(cluster, p, offsets[p], settings) for p in partitions],
        )
        for topic, partitions in by_topic.items()
    ]
    request = FetchRequest(
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        isolation_level=int(settings.read_committed),
        session_epoch=NO_SESSION_EPOCH,
        topics=topics,
    )
    return request, max_version


def _partition(
    cluster: Cluster, partition: TopicPartition, offset: int, settings: ConsumerSettings
) -> FetchPartition:
    known = cluster.view.partition(partition)
    return FetchPartition(
        partition=partition.partition,
        current_leader_epoch=-1 if known is None else known.leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=settings.max_partition_fetch_bytes,
    )


def _answers(cluster: Cluster, response: FetchResponse) -> dict[TopicPartition, PartitionAnswer]:
    answers: dict[TopicPartition, PartitionAnswer] = {}
    for topic in response.responses:
        name = topic.topic or cluster.view.topic_name(topic.topic_id) or ""
        for data in topic.partitions:
            partition = TopicPartition(name, data.partition_index)
            answers[partition] = _answer(data)
            if data.error_code:
                cluster.learn_leader(partition, data.current_leader, response.node_endpoints)
    return answers


def _answer(data: PartitionData) -> PartitionAnswer:
    # Decoding yields a view of the frame, or None.
    records = data.records if isinstance(data.records, memoryview) else memoryview(b"")
    return PartitionAnswer(
        error=error_of(data.error_code),
        records=records,
        aborted=[(item.first_offset, item.producer_id) for item in data.aborted_transactions or ()],
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
    )
