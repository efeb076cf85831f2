"""Background work that continues as long as the broker runs, even if a round fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

logger = logging.getLogger(__name__)

AFTER_DEFECT_S = 1.0


async def repeat(name: str, one_round: Callable[[], Awaitable[None]]) -> NoReturn:
    """Runs until the task is cancelled. A bug is logged and ends its round, not the task."""
    while True:
        try:
            await one_round()
        except Exception:
            logger.exception("bug in %s; it will be retried", name)
            await asyncio.sleep(AFTER_DEFECT_S)
