"""Whether a broker serves, and whether something is wrong with it. Asked by `http`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from floodmark.observability.sources import Sources

FULL_BELOW_BYTES = 1024 * 1024
"""A disk with less room than a batch of the largest default size counts as full."""

FULL_FOR_MS = 60_000
"""So long after a write that found the disk full it still counts as full. A quota shows in no other
way, and whoever could write again says nothing."""


def is_serving(sources: Sources) -> bool:
    """Sockets are open and the cluster counts this broker as alive."""
    broker = sources.broker
    return broker.is_serving and sources.image.is_live(broker.broker_id)


async def disk_space(sources: Sources) -> Mapping[Path, tuple[int, int]]:
    """Size and room of the disk of each log folder that is online. In a thread: disks can hang."""
    logs = sources.broker.logs
    folders = list(logs.dirs)
    return await asyncio.to_thread(lambda: {folder: logs.space(folder) for folder in folders})


async def problems(sources: Sources) -> list[str]:
    """Why somebody should look after this broker."""
    broker = sources.broker
    found = [] if is_serving(sources) else ["the broker does not serve"]
    found += [
        f"log folder {folder} is offline: {why}" for folder, why in broker.logs.offline_dirs.items()
    ]
    full = [
        f"log folder {folder} has {free_bytes} bytes left"
        for folder, (_, free_bytes) in (await disk_space(sources)).items()
        if 0 <= free_bytes < FULL_BELOW_BYTES
    ]
    refusal = broker.replicas.disk_full
    if not full and refusal is not None:
        at_ms, text = refusal
        if broker.clock.monotonic_ms() - at_ms < FULL_FOR_MS:
            full = [text]
    return found + full


async def health(sources: Sources) -> dict[str, object]:
    broker = sources.broker
    reasons = await problems(sources)
    status = "serving" if not reasons else "unhealthy" if is_serving(sources) else "not serving"
    body: dict[str, object] = {
        "status": status,
        "broker_id": broker.broker_id,
        "partitions": len(broker.replicas),
        "offline_partitions": len(broker.replicas.offline),
    }
    return body | {"reasons": reasons} if reasons else body
