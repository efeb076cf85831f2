"""AlterReplicaLogDirs (key 34), versions 1 to 2: which of `log.dirs` a partition lies in.

Partitions are not moved between folders yet. A partition that is where it should be is answered as
done; another folder answers as one of Kafka's does that takes no more replicas. v2 is flexible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

ACCESS = cluster(Operation.ALTER)


def handle(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for wanted in request.dirs:
        for topic in wanted.topics:
            for index in topic.partitions:
                by_topic[topic.name].append(
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index,
                        error_code=_outcome(context, wanted.path, topic.name, index),
                    )
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ]
    )


def _outcome(context: RequestContext, path: str, topic: str, index: int) -> ErrorCode:
    logs = context.services.logs
    if _is_among(path, logs.offline_dirs):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if not _is_among(path, logs.dirs):
        return ErrorCode.LOG_DIR_NOT_FOUND
    log = logs.get(topic, index)
    if log is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if not _is_among(path, [log.directory.parent]):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return ErrorCode.NONE


def _is_among(path: str, folders: Iterable[Path]) -> bool:
    """Folders are compared by the names that DescribeLogDirs tells."""
    return any(path == str(folder.absolute()) for folder in folders)
