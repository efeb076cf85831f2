"""Background work that goes on for as long as the broker serves, whatever happens to one round."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

logger = logging.getLogger(__name__)

AFTER_DEFECT_S = 1.0


async def repeat(name: str, one_round: Callable[[], Awaitable[None]]) -> NoReturn:
    """Until the task is cancelled. A defect is told and ends its round, not the task."""
    while True:
        try:
            await one_round()
        except Exception:
            logger.exception("%s has a defect; it will be tried again", name)
            await asyncio.sleep(AFTER_DEFECT_S)
