"""Expires committed offsets (KIP-211) and their groups. PURE.

Called by the shard's timer every `offsets.retention.check.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from floodmark.coordinators.groups.classic_group import ClassicGroup
from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.records import CommittedOffset, GroupRecord
from floodmark.coordinators.groups.settings import MAX_TOMBSTONES_PER_WRITE
from floodmark.coordinators.groups.states import ClassicState

if TYPE_CHECKING:
    from floodmark.coordinators.groups.shard import GroupShard


def expire_groups(shard: GroupShard, now_ms: int) -> tuple[list[GroupRecord], bool]:
    """Returns tombstones, and whether that was all. The rest follows with the next call."""
    retention_ms = shard.surroundings.settings.offsets_retention_ms
    records: list[GroupRecord] = []
    for group in list(shard.groups.values()):
        if len(records) >= MAX_TOMBSTONES_PER_WRITE:
            return records, False
        is_expired = expiry_rule(group, now_ms, retention_ms)
        if is_expired is None:
            continue
        tombstones, all_gone = shard.offsets.expired(
            group.group_id, group.is_subscribed_to, is_expired
        )
        records += tombstones
        if all_gone and group.is_empty:
            records += shard.tombstones(group)
    return records, True


def expiry_rule(
    group: ClassicGroup | ConsumerGroup, now_ms: int, retention_ms: int
) -> Callable[[CommittedOffset], bool] | None:
    """None means that nothing of this group expires now.

    An empty group's offsets expire counting from when it became empty. Those of a consumer group
    that no longer subscribes to their topic, of simple groups, and of groups of the new protocol
    count from their last commit.
    """
    emptied_ms: int | None = None
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.is_empty:
            emptied_ms = group.state_timestamp_ms
        elif not (
            group.is_consumer_protocol
            and group.subscribed_topics is not None
            and group.state is ClassicState.STABLE
        ):
            return None

    def is_expired(value: CommittedOffset) -> bool:
        if value.expire_timestamp_ms is not None:
            return now_ms >= value.expire_timestamp_ms
        since_ms = value.commit_timestamp_ms if emptied_ms is None else emptied_ms
        return now_ms - since_ms >= retention_ms

    return is_expired
