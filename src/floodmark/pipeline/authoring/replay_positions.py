"""Turns the start of a replay into an offset for each partition that the output reads.

Called by `floodmark pipeline replay`. `current` is where the output stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.offsets import OffsetSpec, offsets_or_raise
from floodmark.pipeline.datasource.offsets import Positions
from floodmark.pipeline.errors import PipelineError


@dataclass(frozen=True)
class ReplayStart:
    """Exactly one is set. Partitions that `offsets` lacks stay where they are."""

    # A time in ms, or an OffsetSpec.
    spec: int | None = None
    # The same offset in every partition.
    offset: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None


def check_known(current: Positions, start: ReplayStart) -> None:
    """Offsets can only be given for partitions that the output reads."""
    if unknown := sorted(set(start.offsets or {}) - set(current)):
        known = ", ".join(str(partition) for partition in sorted(current))
        raise PipelineError(f"the output does not read {unknown[0]}: it reads {known}")


async def resolve_start(cluster: Cluster, current: Positions, start: ReplayStart) -> Positions:
    firsts = await _listed(cluster, current, OffsetSpec.EARLIEST)
    ends = await _listed(cluster, current, OffsetSpec.LATEST)
    if start.spec is not None:
        found = await _listed(cluster, current, start.spec)
        # No record is that recent.
        return {p: ends[p] if offset < 0 else offset for p, offset in found.items()}
    if start.offset is not None:
        return {p: min(max(start.offset, firsts[p]), ends[p]) for p in current}
    given = {p: offset for p, offset in (start.offsets or {}).items() if p in current}
    for partition, offset in given.items():
        if not firsts[partition] <= offset <= ends[partition]:
            raise PipelineError(
                f"{partition} holds offsets {firsts[partition]} to {ends[partition]}, not {offset}"
            )
    return {**current, **given}


async def _listed(cluster: Cluster, partitions: Positions, spec: int) -> Positions:
    listed = await offsets_or_raise(
        cluster, dict.fromkeys(partitions, int(spec)), read_committed=True
    )
    return {partition: item.offset for partition, item in listed.items()}
