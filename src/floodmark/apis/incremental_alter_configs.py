"""IncrementalAlterConfigs (key 44), versions 0 and 1: change single settings of a resource.

Set, delete, and for lists append and subtract. v1 is flexible.
"""

from __future__ import annotations

from floodmark.apis.config_changes import change_configs
from floodmark.apis.context import RequestContext
from floodmark.controller.configs import ConfigAlteration, ConfigStep
from floodmark.metadata.image import ConfigResource
from floodmark.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    controller = context.services.controller
    return IncrementalAlterConfigsResponse(
        responses=await change_configs(
            context.services.broker_id,
            request.resources,
            _alteration,
            lambda wishes: controller.incremental_alter_configs(
                wishes, validate_only=request.validate_only
            ),
            AlterConfigsResourceResponse,
        )
    )


def _alteration(resource: ConfigResource, asked: AlterConfigsResource) -> ConfigAlteration:
    steps = [ConfigStep(c.name, c.config_operation, c.value) for c in asked.configs]
    return ConfigAlteration(resource, steps)
