"""ListOffsets: the offset at a partition's start, end, or at a time.

Used by admin, and by the consumer to turn a seek into a position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.fan_out import (
    Ask,
    ask_leaders,
    ask_leaders_once,
    group_by_topic,
)
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CONSUMER_REPLICA_ID = -1


class OffsetSpec(IntEnum):
    """Timestamps with a special meaning."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


# The first ListOffsets version that supports each special timestamp.
_NEEDED_VERSION: Mapping[int, int] = {OffsetSpec.MAX_TIMESTAMP: 7}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """Offset -1 means that no record is that recent."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_ms: float | None = None,
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    """The offset for a timestamp in ms or an OffsetSpec, per partition."""
    ask = _asker(cluster, read_committed=read_committed)
    return await ask_leaders(cluster, wanted, ask, timeout_ms=timeout_ms)


async def list_offsets_once(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    """One attempt with the metadata at hand."""
    return await ask_leaders_once(cluster, wanted, _asker(cluster, read_committed=read_committed))


def _asker(cluster: Cluster, *, read_committed: bool) -> Ask[int, ListedOffset]:
    async def ask(
        connection: Connection, share: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        version = connection.version_for(ListOffsetsRequest)
        for timestamp in share.values():
            if version < _NEEDED_VERSION.get(timestamp, 0):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"the broker at {connection.address} cannot look up this offset",
                )
        request = _request(cluster, share, read_committed=read_committed)
        response: ListOffsetsResponse = await connection.request(request)
        return _results(response)

    return ask


async def offsets_or_raise(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, ListedOffset]:
    """The same, but raises if any partition fails."""
    listed: dict[TopicPartition, ListedOffset] = {}
    results = await list_offsets(cluster, wanted, read_committed=read_committed)
    for partition, result in results.items():
        if isinstance(result, KafkaError):
            raise result
        listed[partition] = result
    return listed


def _request(
    cluster: Cluster, share: Mapping[TopicPartition, int], *, read_committed: bool
) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=_leader_epoch(cluster, partition),
                    timestamp=share[partition],
                )
                for partition in partitions
            ],
        )
        for topic, partitions in group_by_topic(share).items()
    ]
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=int(read_committed),
        topics=topics,
        timeout_ms=int(cluster.settings.request_timeout_ms),
    )


def _leader_epoch(cluster: Cluster, partition: TopicPartition) -> int:
    known = cluster.view.partition(partition)
    return -1 if known is None else known.leader_epoch


def _results(response: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | KafkaError]:
    results: dict[TopicPartition, ListedOffset | KafkaError] = {}
    for topic in response.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code:
                results[partition] = KafkaError(answer.error_code)
            else:
                results[partition] = ListedOffset(
                    answer.offset, answer.timestamp, answer.leader_epoch
                )
    return results
