"""Lets test brokers and clusters work with both `with` and `async with`."""

from __future__ import annotations

import asyncio
from typing import Self


class WithBlock:
    """Opens at the start of a block and closes at its end. Both may block for a while."""

    def _enter(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        entering = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            # The thread goes on, and nobody would close what it opens.
            await asyncio.wait([entering])
            if entering.exception() is None:
                await asyncio.to_thread(self.close)
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.close)
