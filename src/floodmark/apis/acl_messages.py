"""Converts ACLs and ACL filters from requests, for the ACL API modules."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from floodmark.security.acls import AccessRule, Acl, AclFilter
from floodmark.security.resources import (
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)
from floodmark.wire.messages.create_acls import AclCreation
from floodmark.wire.messages.delete_acls import DeleteAclsFilter
from floodmark.wire.messages.describe_acls import DescribeAclsRequest

M = TypeVar("M", bound=IntEnum)


def _member(of: type[M], number: int) -> M:
    """An unknown number becomes UNKNOWN, as in Kafka."""
    return of(number) if number in of.__members__.values() else of(0)


def read_acl(creation: AclCreation) -> Acl:
    return Acl(
        ResourcePattern(
            _member(ResourceKind, creation.resource_type),
            creation.resource_name,
            _member(PatternType, creation.resource_pattern_type),
        ),
        AccessRule(
            creation.principal,
            creation.host,
            _member(Operation, creation.operation),
            _member(PermissionType, creation.permission_type),
        ),
    )


def read_filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        _member(ResourceKind, wanted.resource_type_filter),
        wanted.resource_name_filter,
        _member(PatternType, wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        _member(Operation, wanted.operation),
        _member(PermissionType, wanted.permission_type),
    )
