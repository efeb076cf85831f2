"""DescribeLogDirs (key 35), versions 1 to 5: the log folders and the size of their contents.

No topics means all. A failed folder returns KAFKA_STORAGE_ERROR. The copy of a moving partition
appears as a future replica, with its lag.
- v2 flexible; v3 a top-level error; v4 the disk's total and free size
- v5 cordoned folders, which do not exist here
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from floodmark.apis.access import Access, Needs
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

ACCESS = Access(needs=(Needs(operation=Operation.DESCRIBE, only_at_the_top=True),))


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    logs = context.services.logs
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    results = [
        DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=str(path.absolute())
        )
        for path in logs.offline_dirs
    ]
    return DescribeLogDirsResponse(
        results=[*results, *(_folder(context, path, wanted) for path in logs.dirs)]
    )


def _folder(
    context: RequestContext, path: Path, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    logs = context.services.logs
    by_topic: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for log in logs.logs():
        if log.directory.parent != path:
            continue
        if wanted is None or (log.topic, log.partition) in wanted:
            by_topic[log.topic].append(
                DescribeLogDirsPartition(
                    partition_index=log.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_offset_lag(context, (log.topic, log.partition)),
                )
            )
    for key, future in logs.moves.futures.items():
        if future.directory.parent == path and (wanted is None or key in wanted):
            by_topic[future.topic].append(_future(context, future))
    total_bytes, usable_bytes = logs.space(path)
    return DescribeLogDirsResult(
        log_dir=str(path.absolute()),
        topics=[
            DescribeLogDirsTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _future(context: RequestContext, future: PartitionLog) -> DescribeLogDirsPartition:
    current = context.services.logs.get(future.topic, future.partition)
    end_offset = future.log_end_offset if current is None else current.log_end_offset
    return DescribeLogDirsPartition(
        partition_index=future.partition,
        partition_size=future.size_bytes,
        offset_lag=max(0, end_offset - future.log_end_offset),
        is_future_key=True,
    )


def _offset_lag(context: RequestContext, key: TopicPartition) -> int:
    """How far the log's end lies behind the high watermark: zero unless the replica lags."""
    replica = context.services.replicas.find(key)
    if replica is None:
        return 0
    return max(0, replica.core.high_watermark - replica.log.log_end_offset)
