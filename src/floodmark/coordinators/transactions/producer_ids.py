"""Producer ids, handed out from blocks that the controller allocates.

Owned by `transactions.service`. The next block is fetched before the current one is used up, so
almost nobody waits for the controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from floodmark.coordinators.ports import CoordinatorError
from floodmark.occurrences import Occurrences, repeated
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

PREFETCH_SHARE = 0.1
"""The next block is requested when this share of the current one is left, as in Kafka."""


class ProducerIds:
    """`allocate` returns the first id of a block and the number of ids in it."""

    def __init__(self, allocate: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        self._allocate = allocate
        self._current = range(0)
        self._following = range(0)
        self._prefetch_at = 0
        self._fetching: asyncio.Task[None] | None = None
        self._failures = Occurrences()

    def take(self) -> int:
        """A new id. Raises CoordinatorError if none is available: the client retries."""
        if not self._current:
            self._current, self._following = self._following, range(0)
        if not self._current:
            self._fetch()
            raise CoordinatorError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "waiting for a block of producer ids"
            )
        producer_id, self._current = self._current[0], self._current[1:]
        if not self._following and len(self._current) <= self._prefetch_at:
            self._fetch()
        return producer_id

    async def ready(self) -> None:
        """Returns once `take` has an id, or the controller could not be reached."""
        if not self.is_ready:
            await asyncio.shield(self._fetch())

    @property
    def is_ready(self) -> bool:
        return bool(self._current or self._following)

    def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()

    def _fetch(self) -> asyncio.Task[None]:
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetch_block())
        return self._fetching

    async def _fetch_block(self) -> None:
        try:
            first, count = await self._allocate()
        except (OSError, CoordinatorError) as problem:
            times = self._failures.worth_telling(str(problem))
            if times:
                logger.warning(
                    "could not get a block of producer ids%s: %s", repeated(times), problem
                )
            return
        finally:
            self._fetching = None
        self._following = range(first, first + count)
        self._prefetch_at = int(count * PREFETCH_SHARE)
