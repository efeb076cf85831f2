"""Replicas that may lead besides the in-sync ones: eligible leader replicas (KIP-966). PURE.

While fewer than `min.insync.replicas` are in sync, the high watermark does not move. So a replica
that left the in-sync set then, or made it too small, still has every committed record, unless its
broker has stopped uncleanly since. The last in-sync replica is therefore not the only one to trust,
and after a power loss it should not be trusted blindly.
"""

from __future__ import annotations

from collections.abc import Collection

from floodmark.metadata.image import PartitionImage


def is_below_minimum(partition: PartitionImage, min_in_sync_replicas: int) -> bool:
    """Whether the high watermark is held. A single replica always suffices for itself."""
    return len(partition.isr) < min(min_in_sync_replicas, len(partition.replicas))


def with_isr(
    partition: PartitionImage,
    isr: tuple[int, ...],
    min_in_sync_replicas: int,
    *,
    distrusted: Collection[int] = (),
) -> PartitionImage:
    """The partition with these in-sync replicas. Former ones stay eligible where possible."""
    changed = partition._replace(isr=isr, eligible_leader_replicas=())
    if not is_below_minimum(changed, min_in_sync_replicas):
        return changed
    eligible = {*partition.isr}
    if is_below_minimum(partition, min_in_sync_replicas):
        eligible.update(partition.eligible_leader_replicas)
    eligible.difference_update(isr, distrusted)
    return changed._replace(
        eligible_leader_replicas=tuple(r for r in partition.replicas if r in eligible)
    )


def without(
    partition: PartitionImage,
    broker_id: int,
    min_in_sync_replicas: int,
    *,
    keeps_all: bool,
) -> PartitionImage:
    """Removes a broker from the in-sync replicas, and from the eligible ones unless it `keeps_all`.

    The in-sync replicas are never empty. If the last one may have lost records, the eligible ones
    take its place. Without any, it stays, because nobody else has its records.
    """
    distrusted = () if keeps_all else (broker_id,)
    remaining = tuple(replica for replica in partition.isr if replica != broker_id)
    if remaining:
        return with_isr(partition, remaining, min_in_sync_replicas, distrusted=distrusted)
    if keeps_all or not is_below_minimum(partition, min_in_sync_replicas):
        return partition
    eligible = tuple(r for r in partition.eligible_leader_replicas if r != broker_id)
    if not eligible:
        return partition
    return with_isr(partition, eligible, min_in_sync_replicas, distrusted=distrusted)
