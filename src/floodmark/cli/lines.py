"""Reads records from stdin or a file, split at a delimiter, without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import suppress

CHUNK_BYTES = 256 * 1024


async def read_pieces(descriptor: int, delimiter: bytes = b"\n") -> AsyncIterator[list[bytes]]:
    """Yields lists of pieces as they arrive. Keeps a last piece without delimiter unless empty."""
    rest = b""
    async for chunk in _read_chunks(descriptor):
        *pieces, rest = (rest + chunk).split(delimiter)
        if pieces:
            yield pieces
    if rest:
        yield [rest]


async def read_whole(descriptor: int) -> bytes:
    return b"".join([chunk async for chunk in _read_chunks(descriptor)])


async def _read_chunks(descriptor: int) -> AsyncIterator[bytes]:
    """Reads files directly, and lets the event loop wait for pipes and terminals.

    A thread blocked in read would keep Ctrl-C from stopping the command.
    """
    waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    while True:
        if waits:
            waits = await _readable(descriptor)
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


async def _readable(descriptor: int) -> bool:
    """Waits for input. Returns False if the loop cannot watch this kind of file, like /dev/null."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except (PermissionError, NotImplementedError):
        return False
    try:
        await ready.wait()
    finally:
        with suppress(ValueError):
            loop.remove_reader(descriptor)
    return True
