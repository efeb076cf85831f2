"""A group's committed offsets next to its partitions' ends, as `group describe` shows them."""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.cli.output import Document
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.group_admin import GroupDescription
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec


async def offset_rows(admin: Admin, group: GroupDescription) -> list[Document]:
    """One row per committed or assigned partition. Unknown values are None."""
    committed = await admin.list_group_offsets(group.group_id)
    owners = {p: member for member in group.members for p in member.assignment}
    partitions = sorted(committed.keys() | owners.keys())
    starts = await known_offsets(admin, partitions, OffsetSpec.EARLIEST)
    ends = await known_offsets(admin, partitions, OffsetSpec.LATEST)
    rows: list[Document] = []
    for partition in partitions:
        stored, owner = committed.get(partition), owners.get(partition)
        end = ends.get(partition)
        offset = None if stored is None else stored.offset
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset,
                "start": starts.get(partition),
                "end": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "metadata": None if stored is None else stored.metadata or None,
                "member": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    return rows


async def known_offsets(
    admin: Admin, partitions: Iterable[TopicPartition], spec: int
) -> dict[TopicPartition, int]:
    """Looks up offsets by timestamp or OffsetSpec. Omits partitions without a result."""
    topics = {topic.name: topic for topic in await admin.list_topics(include_internal=True)}
    wanted = {
        p: spec
        for p in partitions
        if p.topic in topics and p.partition in topics[p.topic].partitions
    }
    if not wanted:
        return {}
    listed = await admin.list_offsets(wanted)
    return {
        partition: found.offset
        for partition, found in listed.items()
        if not isinstance(found, KafkaError) and found.offset >= 0
    }
