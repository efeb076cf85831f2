"""The subjects of ACLs: operations, kinds of resources, name patterns. PURE.

The numbers are those of Kafka's protocol. `apis.authorizer` asks about a `Resource`; an ACL names
a `ResourcePattern`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Operation(IntEnum):
    """`ANY` appears only in filters; `ALL` in ACLs stands for every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceKind(IntEnum):
    """`ANY` appears only in filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """`ANY` and `MATCH` appear only in filters. `MATCH` finds what applies to a resource's name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """`ANY` appears only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Resource(NamedTuple):
    kind: ResourceKind
    name: str


class ResourcePattern(NamedTuple):
    kind: ResourceKind
    name: str
    pattern_type: PatternType = PatternType.LITERAL


WILDCARD = "*"
"""As a literal name: every resource of the kind. As a host: every host."""

CLUSTER_NAME = "kafka-cluster"
THE_CLUSTER = Resource(ResourceKind.CLUSTER, CLUSTER_NAME)


def pascal_case(member: IntEnum) -> str:
    """A member's name in Kafka's nodes and tools: `DescribeConfigs`."""
    return "".join(word.capitalize() for word in member.name.split("_"))
