"""ElectLeaders: elects the preferred leader, or any live replica, of partitions.

Called by `admin.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.fan_out import group_by_topic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError, error_of, raise_for_code
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from floodmark.wire.numbers import ElectionType


async def elect_leaders(
    cluster: Cluster, election_type: ElectionType, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, KafkaError | None]:
    """Returns the outcome for these partitions, or (None) for all that needed an election."""
    wanted = None if partitions is None else group_by_topic(partitions)
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if wanted is None
        else [
            TopicPartitions(topic=topic, partitions=[p.partition for p in group])
            for topic, group in wanted.items()
        ],
        timeout_ms=int(cluster.settings.request_timeout_ms),
    )

    async def attempt() -> dict[TopicPartition, KafkaError | None]:
        connection = await cluster.controller_connection()
        response: ElectLeadersResponse = await connection.request(request)
        raise_for_code(response.error_code)
        answers = {
            TopicPartition(topic.topic, answer.partition_id): error_of(
                answer.error_code, answer.error_message
            )
            for topic in response.replica_election_results
            for answer in topic.partition_result
        }
        for error in answers.values():
            if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
                raise error
        return answers

    return await cluster.retry(attempt)
