"""DescribeAcls (key 29), versions 1 to 3: find ACLs by filter. Refuses without an authorizer."""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.acl_messages import read_filter
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.security.resources import ResourcePattern
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

ACCESS = cluster(Operation.DESCRIBE)


def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    services = context.services
    if services.authorizer.allows_all:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    wanted = read_filter(request)
    reason = wanted.why_invalid()
    if reason is not None:
        return DescribeAclsResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=reason)
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    for pattern, rule in wanted.find(services.image.acls):
        if pattern not in resources:
            resources[pattern] = DescribeAclsResource(
                resource_type=pattern.kind,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
            )
        resources[pattern].acls.append(
            AclDescription(
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))
