"""What the fields of a ConsumerGroupHeartbeat mean for a member. PURE. Used by `consumer.py`."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.consumer_member import (
    LEFT,
    LEFT_FOR_A_WHILE,
    Assignment,
    ConsumerMember,
)
from floodmark.wire.messages.consumer_group_heartbeat import (
    Assignment as AssignmentMessage,
)
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
    ResponseTopicPartitions,
)


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEFT, LEFT_FOR_A_WHILE)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A client that lost track sends everything, and wants to receive everything."""
    subscribes = (
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    )
    return (
        subscribes and request.rebalance_timeout_ms != -1 and request.topic_partitions is not None
    )


def owned_in(topics: list[RequestTopicPartitions] | None) -> Assignment | None:
    if topics is None:
        return None
    owned: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()).union(topic.partitions)
    return owned


def updated_by(
    member: ConsumerMember, client: Client, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember:
    """Fields missing in the request stay unchanged. A member that uses this protocol is no longer
    classic."""
    names = request.subscribed_topic_names
    pattern = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    updated = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=(
            member.server_assignor if request.server_assignor is None else request.server_assignor
        ),
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if pattern is None else pattern,
        classic=None,
    )
    return member if updated == member else updated


def assignment_message(member: ConsumerMember) -> AssignmentMessage:
    return AssignmentMessage(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )
