"""Whether a broker serves clients, and whether it has a problem. Called by `http`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from floodmark.observability.sources import Sources

FULL_BELOW_BYTES = 1024 * 1024
"""A disk with less room than a batch of the largest default size counts as full."""

FULL_FOR_MS = 60_000
"""How long a disk counts as full after a write failed for lack of space. Exceeding a disk quota has
no other sign, and successful writes are not reported."""


def is_serving(sources: Sources) -> bool:
    """Whether sockets are open and the cluster considers this broker alive."""
    broker = sources.broker
    return broker.is_serving and sources.image.is_live(broker.broker_id)


async def disk_space(sources: Sources) -> Mapping[Path, tuple[int, int]]:
    """Total and free bytes of each online log folder's disk. In a thread: disks can hang."""
    logs = sources.broker.logs
    folders = list(logs.dirs)
    return await asyncio.to_thread(lambda: {folder: logs.space(folder) for folder in folders})


async def problems(sources: Sources) -> list[str]:
    """The problems that need an operator's attention."""
    broker = sources.broker
    found = [] if is_serving(sources) else ["the broker does not serve clients"]
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
