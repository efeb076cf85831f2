"""Creates, grows and deletes topics. `admin.py` exposes these functions as methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from floodmark.client.admin.admin_types import CreatedTopic, NewTopic, TopicOutcome
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.errors import KafkaError, error_of
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from floodmark.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from floodmark.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


async def create(
    cluster: Cluster, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> list[CreatedTopic]:
    message = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=int(cluster.settings.request_timeout_ms),
        validate_only=validate_only,
    )

    async def attempt() -> list[CreatedTopic]:
        connection = await cluster.controller_connection()
        response: CreateTopicsResponse = await connection.request(message)
        _raise_if_not_controller(answer.error_code for answer in response.topics)
        return [
            CreatedTopic(
                answer.name,
                answer.topic_id,
                answer.num_partitions,
                answer.replication_factor,
                error_of(answer.error_code, answer.error_message),
            )
            for answer in response.topics
        ]

    return await cluster.retry(attempt)


async def delete(cluster: Cluster, names: Iterable[str]) -> list[TopicOutcome]:
    wanted = list(names)

    async def attempt() -> list[TopicOutcome]:
        connection = await cluster.controller_connection()
        # Version 6 added deletion by id. Earlier versions take a plain list of names.
        by_state = connection.version_for(DeleteTopicsRequest) >= 6
        message = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in wanted] if by_state else [],
            topic_names=[] if by_state else wanted,
            timeout_ms=int(cluster.settings.request_timeout_ms),
        )
        response: DeleteTopicsResponse = await connection.request(message)
        _raise_if_not_controller(answer.error_code for answer in response.responses)
        return [
            TopicOutcome(answer.name or "", error_of(answer.error_code, answer.error_message))
            for answer in response.responses
        ]

    return await cluster.retry(attempt)


async def add_partitions(
    cluster: Cluster, totals: Mapping[str, int], *, validate_only: bool = False
) -> list[TopicOutcome]:
    """Increases each topic to this total number of partitions."""
    message = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in totals.items()
        ],
        timeout_ms=int(cluster.settings.request_timeout_ms),
        validate_only=validate_only,
    )

    async def attempt() -> list[TopicOutcome]:
        connection = await cluster.controller_connection()
        response: CreatePartitionsResponse = await connection.request(message)
        _raise_if_not_controller(answer.error_code for answer in response.results)
        return [
            TopicOutcome(answer.name, error_of(answer.error_code, answer.error_message))
            for answer in response.results
        ]

    return await cluster.retry(attempt)


def _raise_if_not_controller(codes: Iterable[int]) -> None:
    """The controller moved: the whole request must go to the new one."""
    if ErrorCode.NOT_CONTROLLER in codes:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(broker_ids))
            for index, broker_ids in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )
