"""Asks a leader for the start and end of its logs, for followers that are out of range.

Called by `replication.fetcher`. ListOffsets returns one offset per partition, so it takes two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import NO_ERROR, ErrorCode
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2


class LeaderOffsets(NamedTuple):
    log_start_offset: int
    log_end_offset: int


async def offsets_of(
    broker_id: int,
    asked: Sequence[tuple[TopicPartition, int]],
    ask: Callable[[ListOffsetsRequest], Awaitable[Any]],
) -> dict[TopicPartition, LeaderOffsets | ErrorCode]:
    """`asked` has partitions with the leader epochs that we know. A follower gets the log end, not
    the high watermark."""
    starts = _read(await ask(_request(broker_id, asked, EARLIEST)))
    ends = _read(await ask(_request(broker_id, asked, LATEST)))
    found: dict[TopicPartition, LeaderOffsets | ErrorCode] = {}
    for key, start in starts.items():
        end = ends.get(key, ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(start, ErrorCode):
            found[key] = start
        elif isinstance(end, ErrorCode):
            found[key] = end
        else:
            found[key] = LeaderOffsets(start, end)
    return found


def _request(
    broker_id: int, asked: Sequence[tuple[TopicPartition, int]], timestamp: int
) -> ListOffsetsRequest:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), leader_epoch in asked:
        wanted = ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        by_topic.setdefault(topic, []).append(wanted)
    return ListOffsetsRequest(
        replica_id=broker_id,
        topics=[
            ListOffsetsTopic(name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )


def _read(response: ListOffsetsResponse) -> dict[TopicPartition, int | ErrorCode]:
    found: dict[TopicPartition, int | ErrorCode] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            error_code = ErrorCode.of(partition.error_code)
            is_found = error_code is NO_ERROR
            found[topic.name, partition.partition_index] = (
                partition.offset if is_found else error_code
            )
    return found
