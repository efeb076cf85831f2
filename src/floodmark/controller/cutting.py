"""Cuts what a decision stores into multis that the store accepts. PURE; used by the controller.

A decision that fits stays whole. One that does not is stored piece by piece, each with the check of
the controller epoch, in the order of its operations. A controller that stops between two pieces
leaves what the next one completes (`unfinished.py`): operations are ordered for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from floodmark.metadata import paths
from floodmark.metadata.store import Operation, operation_bytes


def cut(operations: Sequence[Operation], limit_bytes: int | None) -> Iterator[list[Operation]]:
    """In order, none empty; without a limit all in one.

    A partition's state and its list of eligible leaders, which follows it, stay together: without
    the list of its version, nobody would be eligible. A list is too short to matter to the limit.
    """
    piece: list[Operation] = []
    size = 0
    for operation in operations:
        more = operation_bytes(operation)
        is_list = operation.path.endswith(f"/{paths.ELIGIBLE}")
        if limit_bytes is not None and piece and not is_list and size + more > limit_bytes:
            yield piece
            piece, size = [], 0
        piece.append(operation)
        size += more
    if piece:
        yield piece
