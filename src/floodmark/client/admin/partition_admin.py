"""Deletes records and describes producers of partitions. `admin.py` exposes these as methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from floodmark.client.admin.admin_types import ActiveProducer
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.fan_out import ask_leaders, group_by_topic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError, error_of
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from floodmark.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Deletes records below each offset (-1: high watermark). Returns the new log starts."""

    async def ask(
        connection: Connection, share: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        message = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=p.partition, offset=share[p])
                        for p in partitions
                    ],
                )
                for topic, partitions in group_by_topic(share).items()
            ],
            timeout_ms=int(cluster.settings.request_timeout_ms),
        )
        response: DeleteRecordsResponse = await connection.request(message)
        return {
            TopicPartition(topic.name, p.partition_index): error_of(p.error_code) or p.low_watermark
            for topic in response.topics
            for p in topic.partitions
        }

    return await ask_leaders(cluster, before, ask)


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
    async def ask(
        connection: Connection, share: Mapping[TopicPartition, None]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        message = DescribeProducersRequest(
            topics=[
                TopicRequest(name=topic, partition_indexes=[p.partition for p in group])
                for topic, group in group_by_topic(share).items()
            ]
        )
        response: DescribeProducersResponse = await connection.request(message)
        return _producers(response)

    return await ask_leaders(cluster, dict.fromkeys(partitions), ask)


def _producers(
    response: DescribeProducersResponse,
) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
    results: dict[TopicPartition, list[ActiveProducer] | KafkaError] = {}
    for topic in response.topics:
        for answer in topic.partitions:
            error = error_of(answer.error_code, answer.error_message)
            results[TopicPartition(topic.name, answer.partition_index)] = error or [
                ActiveProducer(
                    p.producer_id,
                    p.producer_epoch,
                    p.last_sequence,
                    p.last_timestamp,
                    p.coordinator_epoch,
                    p.current_txn_start_offset,
                )
                for p in answer.active_producers
            ]
    return results
