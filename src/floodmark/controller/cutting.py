"""Splits a decision's operations into multis that the store accepts. PURE; used by the controller.

A decision that fits stays whole. A larger one is stored in parts, each with the check of the
controller epoch, in the order of its operations. If a controller stops between two parts, the next
one completes them (`unfinished.py`): the operations are ordered for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from floodmark.metadata import paths
from floodmark.metadata.store import Operation, operation_bytes


def cut(operations: Sequence[Operation], limit_bytes: int | None) -> Iterator[list[Operation]]:
    """Yields non-empty parts in order. Without a limit, a single part.

    A partition's state and the list of eligible leaders after it stay together: without the list of
    its version, nobody would be eligible. A list is too short to matter for the limit.
    """
    if limit_bytes is None:
        if operations:
            yield list(operations)
        return
    piece: list[Operation] = []
    size = 0
    for operation in operations:
        more = operation_bytes(operation)
        is_list = operation.path.endswith(f"/{paths.ELIGIBLE}")
        if piece and not is_list and size + more > limit_bytes:
            yield piece
            piece, size = [], 0
        piece.append(operation)
        size += more
    if piece:
        yield piece
