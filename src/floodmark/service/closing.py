"""Closes services, consumers and served tables at the end of `async with`."""

from __future__ import annotations


class ClosedAtExit:
    """Leaving the `async with` block calls `close`, with an exception or without."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
