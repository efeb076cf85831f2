"""What the controller decided about each item of a request, also when it could decide nothing.

Used by the API modules whose answers carry an error per item. One that has an error for the whole
answer catches `ControllerUnavailable` itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from floodmark.controller.controller import ControllerUnavailable
from floodmark.wire.errors import ErrorCode

T = TypeVar("T")


async def decided(
    decision: Awaitable[list[T]], refused: Callable[[ErrorCode, str], list[T]]
) -> list[T]:
    """`refused` makes the answers of all items out of the one reason that they share."""
    try:
        return await decision
    except ControllerUnavailable as problem:
        return refused(problem.error_code, str(problem))
