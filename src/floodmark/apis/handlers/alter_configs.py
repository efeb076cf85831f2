"""AlterConfigs (key 33), versions 0 to 2: replace all settings of a resource.

Settings not in the request return to their default. Prefer IncrementalAlterConfigs.
v2 is flexible.
"""

from __future__ import annotations

from floodmark.apis.access import Access
from floodmark.apis.authorizer import Operation
from floodmark.apis.config_changes import change_configs
from floodmark.apis.config_resources import each_config_resource
from floodmark.apis.context import RequestContext
from floodmark.controller.configs import ConfigReplacement
from floodmark.metadata.image import ConfigResource
from floodmark.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

ACCESS = Access(each=each_config_resource(Operation.ALTER_CONFIGS, "responses"))


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    controller = context.services.controller
    return AlterConfigsResponse(
        responses=await change_configs(
            context.services,
            request.resources,
            _replacement,
            lambda wishes: controller.alter_configs(wishes, validate_only=request.validate_only),
            AlterConfigsResourceResponse,
        )
    )


def _replacement(resource: ConfigResource, asked: AlterConfigsResource) -> ConfigReplacement:
    return ConfigReplacement(resource, {config.name: config.value for config in asked.configs})
