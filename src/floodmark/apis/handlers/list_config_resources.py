"""ListConfigResources (key 74), versions 0 and 1: the resources that can have settings.

v0 lists only client metrics, which do not exist here; v1 lists all kinds, or the requested ones.
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from floodmark.wire.numbers import ResourceType

SUPPORTED = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)

ACCESS = cluster(Operation.DESCRIBE_CONFIGS)


def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if context.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types) or set(SUPPORTED)
    if not wanted <= set(SUPPORTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = context.services.image
    brokers = [str(broker_id) for broker_id in image.brokers]
    names = {
        ResourceType.TOPIC: list(image.topics),
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.CLIENT_METRICS: [],
        ResourceType.GROUP: [name for kind, name in image.configs if kind == "group"],
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in SUPPORTED
            if resource_type in wanted
            for name in names[resource_type]
        ]
    )
