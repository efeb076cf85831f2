"""Runs long work in slices of the loop, and in threads where the steps ask for it.

Used by API modules to inspect records. Slices are short, so a batch of a million records delays
nobody. Compressors run in threads, because they release the GIL.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from floodmark.clock import Clock
from floodmark.steps import Unfinished

T = TypeVar("T")

SLICE_MS = 5.0
"""How long one request may hold the loop before others get a turn."""


async def in_slices(work: Unfinished[T], clock: Clock) -> T:
    steps, aside = work
    try:
        while True:
            result: Any = None
            if aside is None:
                await asyncio.sleep(0)
            else:
                result = await asyncio.to_thread(aside)
            slice_ends_ms = clock.monotonic_ms() + SLICE_MS
            aside = steps.send(result)
            while aside is None and clock.monotonic_ms() < slice_ends_ms:
                aside = next(steps)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        steps.close()
