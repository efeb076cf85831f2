"""DescribeAcls (key 29), versions 1 to 3: there is no authorizer, which Kafka says like this."""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

ACCESS = cluster(Operation.DESCRIBE)


def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
    )
