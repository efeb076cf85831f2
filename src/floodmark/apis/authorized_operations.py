"""Bit fields of the operations a client may perform on a resource.

Without an authorizer, that is every operation valid for the kind of resource, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.apis.authorizer import Guard, Operation, Resource, ResourceKind

NOT_REQUESTED = -(2**31)

OPERATIONS: dict[ResourceKind, tuple[Operation, ...]] = {
    ResourceKind.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceKind.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceKind.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
}
"""The operations valid for each kind of resource, as responses list them."""


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


def operations_on(guard: Guard, resource: Resource) -> int:
    """The bit field of what a client may do."""
    return _bits(op for op in OPERATIONS[resource.kind] if guard.would_allow(op, resource))


ALL_ON_TOPIC = _bits(OPERATIONS[ResourceKind.TOPIC])
ALL_ON_CLUSTER = _bits(OPERATIONS[ResourceKind.CLUSTER])
ALL_ON_GROUP = _bits(OPERATIONS[ResourceKind.GROUP])
