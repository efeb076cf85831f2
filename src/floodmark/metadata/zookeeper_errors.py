"""Maps kazoo's exceptions to the store's: what ZooKeeper refused, and where.

For zookeeper_store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
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
    StoreRefused,
)


def store_error(path: str, problem: KazooException) -> StoreError:
    return StoreRefused(path, f"ZooKeeper refused: {_why(problem)}")


def multi_refusal(operations: Sequence[Operation], results: Sequence[Any]) -> StoreError | None:
    """Why a multi failed; None if it succeeded.

    ZooKeeper marks operations before the refused one as rolled back, and those after it as not
    tried.
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
    return StoreRefused(path, f"ZooKeeper refused: {_why(problem)}")


def _why(problem: Exception) -> str:
    if isinstance(problem, NoAuthError):
        return (
            "its nodes belong to another user (NoAuth). All brokers need the same "
            "floodmark.zookeeper.digest.username and password, or the same certificate"
        )
    return str(problem) or type(problem).__name__
