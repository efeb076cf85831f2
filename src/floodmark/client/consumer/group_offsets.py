"""Stores and reads a group's committed offsets.

Used by group members, by admin, and by pipelines, which keep a group's offsets without being a
member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator
from floodmark.client.cluster.fan_out import group_by_topic
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError, raise_for_code
from floodmark.vocabulary import NO_OFFSET
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from floodmark.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

T = TypeVar("T")

# From version 10 on topics go by id; offsets of a topic that is gone have only its name.
LAST_VERSION_WITH_NAMES = 9
FIRST_VERSION_OF_MANY_GROUPS = 8
NO_GENERATION = -1
# The metadata of offsets that only show where a Spark query is: see docs/pipelines.md.
SHOWN_BY_SPARK = "shown by Spark; the checkpoint counts"


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """The next offset to read, free-form metadata, and the leader epoch of the last record read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who commits. The default is a non-member, which an active group refuses."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


def with_metadata(offset: OffsetAndMetadata | int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset) if isinstance(offset, int) else offset


async def store_offsets(
    cluster: Cluster,
    group: GroupMetadata,
    offsets: Offsets,
    *,
    timeout_ms: float | None = None,
    purpose: str = "",
) -> dict[TopicPartition, KafkaError]:
    """Commits. Returns the partitions whose offset was refused permanently."""

    async def ask(connection: Connection) -> dict[TopicPartition, KafkaError]:
        response: OffsetCommitResponse = await connection.request(
            _commit_request(group, offsets), max_version=LAST_VERSION_WITH_NAMES
        )
        refused = {
            TopicPartition(topic.name, p.partition_index): KafkaError(p.error_code)
            for topic in response.topics
            for p in topic.partitions
            if p.error_code
        }
        for error in refused.values():
            if error.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
        return refused

    return await ask_coordinator(
        cluster,
        CoordinatorType.GROUP,
        group.group_id,
        ask,
        timeout_ms=timeout_ms,
        purpose=purpose,
        what=f"the commit of group {group.group_id}",
    )


async def commit_offsets(
    cluster: Cluster,
    group: GroupMetadata,
    offsets: Offsets,
    *,
    timeout_ms: float | None = None,
    purpose: str = "",
) -> None:
    """Commits all offsets, or raises if one of them fails."""
    refused = await store_offsets(cluster, group, offsets, timeout_ms=timeout_ms, purpose=purpose)
    for partition, error in refused.items():
        raise KafkaError(error.code, f"the offset of {partition} was not committed: {error.text}")


async def committed_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The group's committed offsets, for these partitions or all. Omits those without one.

    With `require_stable`, waits until no open transaction can change the result.
    """
    wanted = None if partitions is None else group_by_topic(partitions)

    async def ask(connection: Connection) -> dict[TopicPartition, OffsetAndMetadata]:
        version = connection.version_for(OffsetFetchRequest, LAST_VERSION_WITH_NAMES)
        request = (
            _fetch_request(group_id, wanted)
            if version >= FIRST_VERSION_OF_MANY_GROUPS
            else _fetch_request_before_v8(group_id, wanted)
        )
        request.require_stable = require_stable and version >= 7
        response: OffsetFetchResponse = await connection.request(request, max_version=version)
        return _committed(response)

    return await ask_coordinator(
        cluster,
        CoordinatorType.GROUP,
        group_id,
        ask,
        timeout_ms=timeout_ms,
        what=f"reading the offsets of group {group_id}",
    )


def commit_entries(
    offsets: Offsets, entry_class: Callable[..., T]
) -> Iterator[tuple[str, list[T]]]:
    """Each topic, and an entry of this class for each of its partitions: for commits inside
    transactions and outside."""
    for topic, partitions in group_by_topic(offsets).items():
        stored = [(p, with_metadata(offsets[p])) for p in partitions]
        yield (
            topic,
            [
                entry_class(
                    partition_index=p.partition,
                    committed_offset=item.offset,
                    committed_leader_epoch=item.leader_epoch,
                    committed_metadata=item.metadata,
                )
                for p, item in stored
            ],
        )


def _commit_request(group: GroupMetadata, offsets: Offsets) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(name=topic, partitions=entries)
            for topic, entries in commit_entries(offsets, OffsetCommitRequestPartition)
        ],
    )


_ByTopic = Mapping[str, list[TopicPartition]]


def _fetch_request(group_id: str, wanted: _ByTopic | None) -> OffsetFetchRequest:
    topics = None
    if wanted is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=[p.partition for p in partitions])
            for name, partitions in wanted.items()
        ]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])


def _fetch_request_before_v8(group_id: str, wanted: _ByTopic | None) -> OffsetFetchRequest:
    topics = None
    if wanted is not None:
        topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=[p.partition for p in partitions])
            for name, partitions in wanted.items()
        ]
    return OffsetFetchRequest(group_id=group_id, topics=topics)


def _committed(response: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata]:
    raise_for_code(response.error_code)
    found: list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]] = [
        (topic.name, p) for topic in response.topics for p in topic.partitions
    ]
    for group in response.groups:
        raise_for_code(group.error_code)
        found += [(topic.name, p) for topic in group.topics for p in topic.partitions]
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for name, answer in found:
        raise_for_code(answer.error_code)
        if answer.committed_offset != NO_OFFSET:
            offsets[TopicPartition(name, answer.partition_index)] = OffsetAndMetadata(
                answer.committed_offset, answer.metadata or "", answer.committed_leader_epoch
            )
    return offsets
