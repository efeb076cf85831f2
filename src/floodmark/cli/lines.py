"""Records from stdin or a file, cut at a delimiter, without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import suppress

CHUNK_BYTES = 256 * 1024


async def read_pieces(descriptor: int, delimiter: bytes = b"\n") -> AsyncIterator[list[bytes]]:
    """Lists of pieces as they come; a last piece without delimiter counts, an empty one does
    not."""
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
    """Files are always readable; pipes and terminals are waited for by the loop itself, because a
    thread that blocks in read would keep Ctrl-C from ending the command.
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
    """Wait for input; False when the loop cannot watch this kind of file (such as /dev/null)."""
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
