"""Group administration: list, describe, delete, and manage committed offsets.

Called by `admin.py`. Listing asks every broker; everything else asks each group's coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator
from floodmark.client.cluster.fan_out import ask_brokers, group_by_topic
from floodmark.client.cluster.view import Broker, TopicPartition
from floodmark.client.consumer.group_protocol import read_assignment
from floodmark.client.consumer.membership import PROTOCOL_TYPE
from floodmark.client.errors import KafkaError, error_of, raise_for_code
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import consumer_group_describe, describe_groups
from floodmark.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from floodmark.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from floodmark.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from floodmark.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from floodmark.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from floodmark.wire.schema import WireError

T = TypeVar("T")

CLASSIC = "classic"
CONSUMER = "consumer"
# States without members: offsets may be changed.
EMPTY_STATES = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class GroupListing:
    """State and type are empty if the broker is too old to report them."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    coordinator: Broker | None
    members: Sequence[GroupMember]

    @property
    def is_empty(self) -> bool:
        return self.state in EMPTY_STATES


async def list_groups(
    cluster: Cluster, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[GroupListing]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    async def ask(connection: Connection) -> list[GroupListing]:
        response: ListGroupsResponse = await connection.request(request)
        raise_for_code(response.error_code)
        return [
            GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in response.groups
        ]

    answers = await ask_brokers(cluster, ask)
    # While a group moves between coordinators, both may list it.
    found = {group.group_id: group for answer in answers for group in answer}
    return [found[group_id] for group_id in sorted(found)]


async def describe(
    cluster: Cluster, group_ids: Iterable[str]
) -> dict[str, GroupDescription | KafkaError]:
    return await _ask_each(cluster, group_ids, _describe_one)


async def delete(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
    """None means the group was deleted."""

    async def delete_one(_cluster: Cluster, connection: Connection, group_id: str) -> None:
        response: DeleteGroupsResponse = await connection.request(
            DeleteGroupsRequest(groups_names=[group_id])
        )
        raise_for_code(response.results[0].error_code)

    return await _ask_each(cluster, group_ids, delete_one)


async def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """None means the offset was deleted. Offsets of topics that members read are refused."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for _, i in group],
            )
            for topic, group in group_by_topic(partitions).items()
        ],
    )

    async def ask(connection: Connection) -> dict[TopicPartition, KafkaError | None]:
        response: OffsetDeleteResponse = await connection.request(request)
        raise_for_code(response.error_code)
        return {
            TopicPartition(topic.name, p.partition_index): error_of(p.error_code)
            for topic in response.topics
            for p in topic.partitions
        }

    return await ask_coordinator(cluster, CoordinatorType.GROUP, group_id, ask)


async def _ask_each(
    cluster: Cluster,
    group_ids: Iterable[str],
    ask: Callable[[Cluster, Connection, str], Awaitable[T]],
) -> dict[str, T | KafkaError]:
    """One request per group: each may have a different coordinator and fail separately."""

    async def ask_one(group_id: str) -> T | KafkaError:
        try:
            return await ask_coordinator(
                cluster,
                CoordinatorType.GROUP,
                group_id,
                lambda connection: ask(cluster, connection, group_id),
                what=f"the request about group {group_id}",
            )
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(group_ids))
    answers = await asyncio.gather(*(ask_one(group_id) for group_id in wanted))
    return dict(zip(wanted, answers, strict=True))


async def _describe_one(
    cluster: Cluster, connection: Connection, group_id: str
) -> GroupDescription:
    """A group uses one of two protocols, and only asking shows which."""
    coordinator = cluster.broker_at(connection.address)
    if connection.supports(ApiKey.CONSUMER_GROUP_DESCRIBE):
        response: ConsumerGroupDescribeResponse = await connection.request(
            ConsumerGroupDescribeRequest(group_ids=[group_id])
        )
        (group,) = response.groups
        if group.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise_for_code(group.error_code, group.error_message)
            return _of_consumer_protocol(group, coordinator)
    classic: DescribeGroupsResponse = await connection.request(
        DescribeGroupsRequest(groups=[group_id])
    )
    (described,) = classic.groups
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND or described.group_state == "Dead":
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} does not exist")
    raise_for_code(described.error_code, described.error_message)
    return _of_classic_protocol(described, coordinator)


def _of_consumer_protocol(
    group: consumer_group_describe.DescribedGroup, coordinator: Broker | None
) -> GroupDescription:
    members = [
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for member in group.members
    ]
    return GroupDescription(
        group.group_id,
        group.group_state,
        CONSUMER,
        PROTOCOL_TYPE,
        group.assignor_name,
        coordinator,
        members,
    )


def _of_classic_protocol(
    group: describe_groups.DescribedGroup, coordinator: Broker | None
) -> GroupDescription:
    members = [
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _partitions_of(group.protocol_type, member.member_assignment),
        )
        for member in group.members
    ]
    return GroupDescription(
        group.group_id,
        group.group_state,
        CLASSIC,
        group.protocol_type,
        group.protocol_data,
        coordinator,
        members,
    )


def _partitions_of(protocol_type: str, assignment: Any) -> tuple[TopicPartition, ...]:
    """Only consumers assign partitions. Connect workers use a format of their own."""
    if protocol_type != PROTOCOL_TYPE:
        return ()
    try:
        return tuple(read_assignment(bytes(assignment)))
    except WireError:
        return ()
