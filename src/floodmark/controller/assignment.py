"""The initial state of new partitions: checks brokers, sets in-sync replicas and leader. PURE."""

from __future__ import annotations

from collections.abc import Sequence

from floodmark.controller.decision import Refusal, View
from floodmark.controller.placement import place_replicas
from floodmark.metadata.image import MetadataImage, PartitionImage
from floodmark.wire.errors import ErrorCode

ManualAssignment = tuple[int, Sequence[int]]


def place_automatically(
    view: View, partitions: int, replication_factor: int, *, first_partition: int = 0
) -> tuple[PartitionImage, ...] | Refusal:
    """Spreads new partitions over the live brokers."""
    live = {
        broker.id: broker.rack
        for broker in view.image.live_brokers()
        if view.image.is_active(broker.id)
    }
    refusal = _check_enough_brokers(len(view.image.brokers), len(live), replication_factor)
    if refusal is not None:
        return refusal
    assignment = place_replicas(
        live,
        partitions,
        replication_factor,
        start=view.random_below(len(live)),
        shift=view.random_below(len(live)),
        first_partition=first_partition,
    )
    # Partitions with the same replicas share an image: a topic may have many thousands.
    images = {row: PartitionImage(row[0], 0, 0, row, row) for row in assignment}
    return tuple(images[row] for row in assignment)


def _check_enough_brokers(known: int, live: int, replication_factor: int) -> Refusal | None:
    reason = None
    if live == 0:
        reason = "All brokers are currently fenced."
    elif replication_factor > known:
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {known} broker(s) are registered."
        )
    elif replication_factor > live:
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {live} broker(s) are live."
        )
    if reason is None:
        return None
    return Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {reason}",
    )


def place_manually(
    image: MetadataImage, assignments: Sequence[ManualAssignment]
) -> tuple[PartitionImage, ...] | Refusal:
    """Places the partitions of a new topic as the client specifies."""
    rows: dict[int, Sequence[int]] = {}
    for index, replicas in assignments:
        if index in rows:
            return _invalid(f"Found multiple manual partition assignments for partition {index}")
        rows[index] = replicas
    partitions: list[PartitionImage] = []
    for index, replicas in rows.items():
        expected = len(partitions[0].replicas) if partitions else None
        placed = place_one_manually(image, index, replicas, expected)
        if isinstance(placed, Refusal):
            return placed
        partitions.append(placed)
    if sorted(rows) != list(range(len(rows))):
        return _invalid("partitions should be a consecutive 0-based integer sequence")
    return tuple(partition for _, partition in sorted(zip(rows, partitions, strict=True)))


def place_one_manually(
    image: MetadataImage, index: int, replicas: Sequence[int], expected_factor: int | None
) -> PartitionImage | Refusal:
    prefix = "The manual partition assignment includes"
    if not replicas:
        return _invalid(f"{prefix} an empty replica list.")
    for broker in sorted(replicas):
        if broker not in image.brokers:
            return _invalid(f"{prefix} broker {broker}, but no such broker is registered.")
        if replicas.count(broker) > 1:
            return _invalid(f"{prefix} the broker {broker} more than once.")
    if expected_factor is not None and len(replicas) != expected_factor:
        return _invalid(
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {expected_factor} replica(s)."
        )
    isr = tuple(broker for broker in replicas if image.is_active(broker))
    if not isr:
        return _invalid(
            f"All brokers specified in the manual partition assignment for partition {index} are "
            "fenced or in controlled shutdown."
        )
    return PartitionImage(isr[0], 0, 0, tuple(replicas), isr)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
