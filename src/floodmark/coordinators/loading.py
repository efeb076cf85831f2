"""Replays a partition's log into its shard, in slices that leave the loop free.

Called by `coordinators.runtime` when this broker becomes the leader of the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from floodmark.clock import Clock
from floodmark.coordinators.shard import Producer, Shard
from floodmark.records.batch import BatchHeader, iter_headers
from floodmark.records.control import ControlType, decode_marker
from floodmark.records.record import iter_records

SLICE_MS = 10
"""How long loading holds the loop before it lets requests run."""


async def load_log(chunks: Iterator[bytes | memoryview], shard: Shard[Any], clock: Clock) -> None:
    """Returns without a pause after the last chunk, so that nothing is appended in between."""
    slice_began_ms = clock.monotonic_ms()
    for chunk in chunks:
        for position, header in iter_headers(chunk):
            for _ in replay_batch(chunk, position, header, shard):
                if clock.monotonic_ms() - slice_began_ms > SLICE_MS:
                    await asyncio.sleep(0)
                    slice_began_ms = clock.monotonic_ms()


def replay_batch(
    chunk: bytes | memoryview, position: int, header: BatchHeader, shard: Shard[Any]
) -> Iterator[None]:
    """Yields after each record: a batch may have very many."""
    producer = Producer(header.producer_id, header.producer_epoch)
    if header.is_control:
        marker = decode_marker(chunk, position)
        if marker is not None:
            shard.end_transaction(producer, committed=marker.control_type is ControlType.COMMIT)
        yield
        return
    writer = producer if header.is_transactional else None
    for record in iter_records(chunk, position):
        decoded = None if record.key is None else shard.decode(record.key, record.value)
        if decoded is not None:
            shard.replay(decoded, record.offset, writer)
        yield
