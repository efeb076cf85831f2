"""The controller's decision for each item of a request, even if it could not decide.

Used by API modules whose responses carry an error per item. Modules with a top-level error catch
`ControllerUnavailable` themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from floodmark.controller.decision import ControllerUnavailable
from floodmark.wire.errors import ErrorCode

T = TypeVar("T")


async def decided(
    decision: Awaitable[list[T]], refused: Callable[[ErrorCode, str], list[T]]
) -> list[T]:
    """`refused` builds the results of all items from their common reason."""
    try:
        return await decision
    except ControllerUnavailable as problem:
        return refused(problem.error_code, str(problem))
