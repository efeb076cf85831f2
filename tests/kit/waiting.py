"""Waits for what a broker does soon but not at once, such as spreading metadata."""

import asyncio
import time
from collections.abc import Awaitable, Callable


def wait_for(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout_s} s"
        time.sleep(0.02)


async def eventually(
    condition: Callable[[], object | Awaitable[object]], timeout_s: float = 30.0
) -> None:
    """The same for a test on a loop: others get their turns meanwhile."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert time.monotonic() < deadline, f"not so after {timeout_s} s"
        await asyncio.sleep(0.005)
