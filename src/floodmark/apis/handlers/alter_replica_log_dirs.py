"""AlterReplicaLogDirs (key 34), versions 1 to 2: move a partition to one of `log.dirs`.

Responds immediately and moves the partition in the background (`broker/folder_moves.py`). Asking
for the partition's current folder cancels a move. A partition that is not here yet will be created
in the requested folder; as in Kafka, the response is REPLICA_NOT_AVAILABLE. v2 is flexible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.topic_names import why_invalid
from floodmark.storage.folder_names import name_future
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
    if _found(path, logs.offline_dirs) is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    folder = _found(path, logs.dirs)
    if folder is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    key = (topic, index)
    if context.services.replicas.is_offline(key):
        return ErrorCode.KAFKA_STORAGE_ERROR
    log = logs.get(topic, index)
    if log is None or context.services.replicas.find(key) is None:
        if why_invalid(topic) is None:
            logs.prefer_dir(key, folder)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if name_future(log.directory.name) is None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    context.services.folder_moves.request(key, folder)
    return ErrorCode.NONE


def _found(path: str, folders: Iterable[Path]) -> Path | None:
    """Compares folders by the names that DescribeLogDirs returns."""
    return next((folder for folder in folders if path == str(folder.absolute())), None)
