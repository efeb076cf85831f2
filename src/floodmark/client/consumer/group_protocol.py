"""Encodes and decodes what group members exchange through the coordinator. PURE.

`membership.py` uses it to join and sync. Admin uses it to show assignments.
"""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.client.cluster.fan_out import group_by_topic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.assignors import Member
from floodmark.wire.internal.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from floodmark.wire.internal.framing import decode_versioned_or_newest, encode_versioned

VERSION = 3


def encode_subscription(
    topics: Iterable[str], owned: Iterable[TopicPartition], generation_id: int
) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            SubscriptionTopicPartition(topic=topic, partitions=[p.partition for p in group])
            for topic, group in group_by_topic(owned).items()
        ],
        generation_id=generation_id,
    )
    return encode_versioned(subscription, VERSION)


def read_member(member_id: str, subscription: bytes, group_instance_id: str | None) -> Member:
    message = decode_versioned_or_newest(ConsumerProtocolSubscription, subscription)
    owned = [
        TopicPartition(item.topic, index)
        for item in message.owned_partitions
        for index in item.partitions
    ]
    return Member(
        member_id,
        frozenset(message.topics),
        tuple(owned),
        message.generation_id,
        group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignmentTopicPartition(topic=topic, partitions=[p.partition for p in group])
            for topic, group in group_by_topic(partitions).items()
        ]
    )
    return encode_versioned(message, VERSION)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """Empty bytes mean no partitions: the group has not settled yet."""
    if not data:
        return []
    message = decode_versioned_or_newest(ConsumerProtocolAssignment, data)
    return [
        TopicPartition(item.topic, index)
        for item in message.assigned_partitions
        for index in item.partitions
    ]
