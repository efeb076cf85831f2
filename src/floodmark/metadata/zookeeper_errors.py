"""kazoo's exceptions as the store's: what ZooKeeper refused, and where. Used by zookeeper_store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from floodmark.metadata.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SetData,
    StoreError,
    StoreUnavailable,
)


def store_error(path: str, problem: KazooException) -> StoreError:
    return StoreUnavailable(path, f"ZooKeeper refused: {problem or type(problem).__name__}")


def multi_refusal(operations: Sequence[Operation], results: Sequence[Any]) -> StoreError | None:
    """Why a multi was not done; None when it was.

    ZooKeeper marks what came before the refused operation as rolled back, and what came after it
    as not tried.
    """
    for operation, result in zip(operations, results, strict=False):
        if isinstance(result, Exception) and not isinstance(
            result, RolledBackError | RuntimeInconsistency
        ):
            return _refusal(operation, result)
    return None


def _refusal(operation: Operation, problem: Exception) -> StoreError:
    path = operation.path
    parent = path.rpartition("/")[0] or "/"
    if isinstance(problem, NoNodeError):
        return NoNode(parent if isinstance(operation, Create) else path)
    if isinstance(problem, NodeExistsError):
        return NodeExists(path)
    if isinstance(problem, NotEmptyError):
        return NotEmpty(path)
    if isinstance(problem, NoChildrenForEphemeralsError):
        return EphemeralParent(parent)
    if isinstance(problem, BadVersionError):
        expected = operation.version if isinstance(operation, Check | SetData | Delete) else -1
        return BadVersion(path, expected, ANY_VERSION)
    return StoreUnavailable(path, f"ZooKeeper refused: {type(problem).__name__}")
