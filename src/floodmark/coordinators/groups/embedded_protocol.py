"""Subscriptions and assignments in the classic consumer protocol's format. PURE.

Used where the coordinator must look inside: when a group moves between the protocols, and for a
classic member of a consumer group.
"""

from __future__ import annotations

from uuid import UUID

from floodmark.coordinators.groups.consumer_member import Assignment
from floodmark.metadata.image import MetadataImage
from floodmark.wire.internal.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from floodmark.wire.internal.framing import (
    decode_versioned_or_newest,
    encode_versioned,
    read_prefix,
)

OLDEST_VERSION = 0
NEWEST_VERSION = 3
VERSION_BYTES = 2


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises WireError."""
    return decode_versioned_or_newest(ConsumerProtocolSubscription, metadata)


def owned_partitions(
    subscription: ConsumerProtocolSubscription, image: MetadataImage
) -> Assignment:
    return _by_id([(t.topic, t.partitions) for t in subscription.owned_partitions], image)


def read_assignment(assignment: bytes, image: MetadataImage) -> tuple[Assignment, bool]:
    """The partitions, and whether a custom assignor added its own data. Raises WireError."""
    if not assignment:
        return {}, False
    message = decode_versioned_or_newest(ConsumerProtocolAssignment, assignment)
    topics = [(topic.topic, topic.partitions) for topic in message.assigned_partitions]
    return _by_id(topics, image), bool(message.user_data)


def write_assignment(assignment: Assignment, metadata: bytes, image: MetadataImage) -> bytes:
    """Uses the version of the member's subscription. Omits deleted topics.

    If a member offers several protocols, only the first counts. The others were not checked when it
    joined, and may not start with a valid version.
    """
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignmentTopicPartition(
                topic=image.topics_by_id[topic_id].name, partitions=sorted(partitions)
            )
            for topic_id, partitions in assignment.items()
            if topic_id in image.topics_by_id
        ]
    )
    version = read_prefix(metadata) if len(metadata) >= VERSION_BYTES else OLDEST_VERSION
    return encode_versioned(message, max(OLDEST_VERSION, min(version, NEWEST_VERSION)))


def _by_id(topics: list[tuple[str, list[int]]], image: MetadataImage) -> Assignment:
    found: dict[UUID, frozenset[int]] = {}
    for name, partitions in topics:
        topic = image.topics.get(name)
        if topic is not None and partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | set(partitions)
    return found
