"""Creates, finds and deletes ACLs. `admin.py` exposes these functions as methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.errors import KafkaError, error_of, raise_for_code
from floodmark.security.acls import AccessRule, Acl, AclFilter
from floodmark.security.resources import (
    Operation,
    PatternType,
    PermissionType,
    ResourceKind,
    ResourcePattern,
)
from floodmark.wire.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from floodmark.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from floodmark.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

T = TypeVar("T")


def creation_request(acls: Sequence[Acl]) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=pattern.kind,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for pattern, rule in acls
        ]
    )


async def create(cluster: Cluster, acls: Sequence[Acl]) -> list[KafkaError | None]:
    """Returns an error or None for each ACL."""
    message = creation_request(acls)

    async def attempt() -> list[KafkaError | None]:
        connection = await cluster.controller_connection()
        response: CreateAclsResponse = await connection.request(message)
        return [error_of(one.error_code, one.error_message) for one in response.results]

    return await cluster.retry(attempt)


async def describe(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    message = _filter(DescribeAclsRequest, wanted)

    async def attempt() -> list[Acl]:
        connection = await cluster.any_connection()
        response: DescribeAclsResponse = await connection.request(message)
        raise_for_code(response.error_code, response.error_message)
        return [_acl(resource, rule) for resource in response.resources for rule in resource.acls]

    return await cluster.retry(attempt)


async def delete(cluster: Cluster, filters: Sequence[AclFilter]) -> list[list[Acl]]:
    """The ACLs that each filter found, which are gone now. Raises the first error."""
    message = DeleteAclsRequest(filters=[_filter(DeleteAclsFilter, wanted) for wanted in filters])

    async def attempt() -> list[list[Acl]]:
        connection = await cluster.controller_connection()
        response: DeleteAclsResponse = await connection.request(message)
        for result in response.filter_results:
            raise_for_code(result.error_code, result.error_message)
        return [
            [_acl(one, one) for one in result.matching_acls] for result in response.filter_results
        ]

    return await cluster.retry(attempt)


def _filter(request_class: Callable[..., T], wanted: AclFilter) -> T:
    return request_class(
        resource_type_filter=wanted.kind,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _acl(
    of: DescribeAclsResource | DeleteAclsMatchingAcl, rule: AclDescription | DeleteAclsMatchingAcl
) -> Acl:
    return Acl(
        ResourcePattern(
            ResourceKind(of.resource_type), of.resource_name, PatternType(of.pattern_type)
        ),
        AccessRule(
            rule.principal,
            rule.host,
            Operation(rule.operation),
            PermissionType(rule.permission_type),
        ),
    )
