"""CORE: picks the replica a consumer should read from (KIP-392).

Used by `replication.replica_manager` if `replica.selector.class` is Kafka's rack-aware selector.
"""

from __future__ import annotations

from collections.abc import Callable

from floodmark.replication.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def closest_replica(
    partition: Partition, rack: str, fetch_offset: int, rack_of: Callable[[int], str | None]
) -> int | None:
    """The most advanced in-sync follower in the consumer's rack. None means the leader.

    `rack_of` returns None for a broker that is gone. Followers out of sync do not qualify, even if
    they have the offset: they may never get the next records.
    """
    if not partition.is_leader or rack_of(partition.broker_id) == rack:
        return None
    candidates = [
        (progress.log_end_offset, progress.last_caught_up_ms, broker)
        for broker, progress in partition.followers.items()
        if progress.log_start_offset <= fetch_offset <= progress.log_end_offset
        and broker in partition.leadership.in_sync_replicas
        and rack_of(broker) == rack
    ]
    return max(candidates)[2] if candidates else None
