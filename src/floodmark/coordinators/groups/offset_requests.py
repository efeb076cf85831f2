"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete on a shard's offsets. PURE.

Called by `shard.py` after it has found the group and checked that the request is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

from floodmark.coordinators.groups.offsets import OffsetStore
from floodmark.coordinators.groups.records import CommittedOffset, OffsetRecord
from floodmark.coordinators.ports import CoordinatorError, GuardedAppend
from floodmark.coordinators.shard import Producer, Write
from floodmark.metadata.image import MetadataImage
from floodmark.vocabulary import NO_OFFSET
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from floodmark.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from floodmark.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from floodmark.wire.schema import ZERO_UUID

DEFAULT_RETENTION = -1
LAST_TIMESTAMP_MS = 2**63 - 1

PartitionCheck: TypeAlias = Callable[[UUID, int], None]
"""Raises if the member may not commit for this partition."""


def commit(
    request: OffsetCommitRequest,
    max_metadata_chars: int,
    check: PartitionCheck | None,
    now_ms: int,
) -> Write[OffsetCommitResponse]:
    """The metadata limit counts characters, as in Kafka, despite the setting's name."""
    group_id = request.group_id
    retention_ms = request.retention_time_ms
    expire_ms = None
    if retention_ms != DEFAULT_RETENTION:
        expire_ms = min(max(now_ms + retention_ms, 0), LAST_TIMESTAMP_MS)
    records: list[OffsetRecord] = []
    topics: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        answers: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            error_code = ErrorCode.NONE
            if len(metadata) > max_metadata_chars:
                error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                if check is not None:
                    check(topic_id, index)
                value = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms,
                    expire_ms,
                    topic_id,
                )
                records.append(OffsetRecord(group_id, name, index, value))
            answers.append(
                OffsetCommitResponsePartition(partition_index=index, error_code=error_code)
            )
        topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=answers))
    return Write(OffsetCommitResponse(topics=topics), records)


def commit_in_transaction(
    request: TxnOffsetCommitRequest,
    max_metadata_chars: int,
    check: PartitionCheck | None,
    image: MetadataImage,
    guarded_append: GuardedAppend,
    now_ms: int,
) -> Write[TxnOffsetCommitResponse]:
    """The same, pending until the producer's transaction ends.

    Producers know only generations: they get ILLEGAL_GENERATION for an old member epoch.
    """
    records: list[OffsetRecord] = []
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            error_code = ErrorCode.NONE
            if len(metadata) > max_metadata_chars:
                error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                if check is not None:
                    _check_known(check, image, topic.name, index)
                value = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms,
                    None,
                    ZERO_UUID,
                )
                records.append(OffsetRecord(request.group_id, topic.name, index, value))
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=error_code)
            )
    producer = Producer(request.producer_id, request.producer_epoch)
    return Write(response, records, producer=producer, guarded_append=guarded_append)


def refuse(request: OffsetCommitRequest, error_code: ErrorCode) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error_code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def refuse_transactional(
    request: TxnOffsetCommitRequest, error_code: ErrorCode
) -> TxnOffsetCommitResponse:
    """The same error for every partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error_code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _check_known(check: PartitionCheck, image: MetadataImage, topic: str, index: int) -> None:
    known = image.topics.get(topic)
    if known is None:
        raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)
    check(known.topic_id, index)


def fetch(
    store: OffsetStore, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """The requested offsets, or all of the group if no topics are named."""
    group_id = request.group_id
    committed = store.topics(group_id)
    wanted: list[tuple[str, UUID, list[int]]]
    if request.topics is None:
        wanted = [(topic, ZERO_UUID, list(partitions)) for topic, partitions in committed.items()]
    else:
        wanted = [(t.name, t.topic_id, t.partition_indexes) for t in request.topics]
    topics = []
    for name, topic_id, indexes in wanted:
        partitions = committed.get(name, {})
        answers = []
        for index in indexes:
            if require_stable and store.is_unstable(group_id, name, index):
                answers.append(no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                continue
            value = partitions.get(index)
            if value is None or _is_of_another_topic(value.topic_id, topic_id):
                answers.append(no_offset(index))
                continue
            answers.append(
                OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                )
            )
        topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=answers))
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def nothing_committed(request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """An unknown group has no offsets, which is not an error."""
    return fetch(OffsetStore(), request, require_stable=False)


def delete(
    store: OffsetStore, request: OffsetDeleteRequest, is_subscribed: Callable[[str], bool]
) -> Write[OffsetDeleteResponse]:
    group_id = request.group_id
    records: list[OffsetRecord] = []
    response = OffsetDeleteResponse()
    for topic in request.topics:
        is_refused = is_subscribed(topic.name)
        error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_refused else ErrorCode.NONE
        response.topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index, error_code=error_code
                    )
                    for partition in topic.partitions
                ],
            )
        )
        if is_refused:
            continue
        for partition in topic.partitions:
            index = partition.partition_index
            is_known = store.get(group_id, topic.name, index) is not None
            if is_known or store.is_unstable(group_id, topic.name, index):
                records.append(OffsetRecord(group_id, topic.name, index, None))
    return Write(response, records, atomic=False)


def no_offset(
    partition: int, error_code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error_code,
    )


def _is_of_another_topic(stored: UUID, asked: UUID) -> bool:
    """A topic that was deleted and recreated starts without offsets."""
    return ZERO_UUID not in (stored, asked) and stored != asked
