"""Places the replicas of new partitions on brokers. PURE.

Kafka's scheme: leaders go round-robin over the brokers from a random start. Further replicas follow
at a shifting distance, so that the followers of one broker's partitions spread over all others.
With racks, consecutive brokers are in different racks, and no rack gets a second replica before
every rack has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

Assignment = tuple[tuple[int, ...], ...]


def place_replicas(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> Assignment:
    """Replicas of `partitions` new partitions over `brokers` (id to rack), the leader first.

    The caller has checked that there are enough brokers. Racks count only if all brokers have one.
    """
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if racks and len(racks) == len(brokers):
        return _with_racks(racks, partitions, replication_factor, start, shift, first_partition)
    order = sorted(brokers)
    rows = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        followers = (
            _follower_index(first, shift, step, len(order))
            for step in range(replication_factor - 1)
        )
        rows.append((order[first], *(order[index] for index in followers)))
    return tuple(rows)


def _with_racks(
    racks: Mapping[int, str],
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> Assignment:
    order = alternate_racks(racks)
    rows = []
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        rows.append(_spread_over_racks(order, racks, first, shift, replication_factor))
    return tuple(rows)


def _spread_over_racks(
    order: Sequence[int],
    racks: Mapping[int, str],
    first: int,
    shift: int,
    replication_factor: int,
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    chosen = [order[first]]
    step = 0
    while len(chosen) < replication_factor:
        # Stepping by at least the number of racks keeps the followers out of the leader's rack.
        index = _follower_index(first, shift * rack_count, step, len(order))
        step += 1
        broker = order[index]
        used = {racks[one] for one in chosen}
        if broker in chosen or (racks[broker] in used and len(used) < rack_count):
            continue
        chosen.append(broker)
    return tuple(chosen)


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """One broker of each rack in turn: 0 and 3 in A, 1 in B, 2 in C become 0, 1, 2, 3."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for one_each in rounds for broker in one_each if broker is not None]


def _follower_index(first: int, shift: int, step: int, brokers: int) -> int:
    if brokers == 1:
        return 0
    return (first + 1 + (shift + step) % (brokers - 1)) % brokers
