"""DescribeCluster (key 60), versions 0 to 2: the brokers and the controller.

- v1 brokers or controllers (there are no controller endpoints here); v2 fenced brokers
"""

from __future__ import annotations

from floodmark.apis.access import Access, Tells
from floodmark.apis.authorized_operations import ALL_ON_CLUSTER, NOT_REQUESTED
from floodmark.apis.authorizer import ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2

ACCESS = Access(answer=(Tells(kind=ResourceKind.CLUSTER, field="cluster_authorized_operations"),))


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    image = context.services.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in context.services.broker_endpoints(
                context.peer.listener_name
            )
        ],
        cluster_authorized_operations=(
            ALL_ON_CLUSTER if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )
