"""Closes services, consumers and served tables at the end of `async with`."""

from __future__ import annotations

from types import TracebackType


class ClosedAtExit:
    """Leaving the `async with` block calls `close`, with an exception or without."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
