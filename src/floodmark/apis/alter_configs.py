"""AlterConfigs (key 33), versions 0 to 2: replace all settings of a resource.

What the request does not name goes back to its default: IncrementalAlterConfigs is the better way.
v2 is flexible.
"""

from __future__ import annotations

from floodmark.apis.config_resources import Refused, resource_of, type_of
from floodmark.apis.context import RequestContext
from floodmark.controller.configs import ConfigReplacement
from floodmark.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    response = AlterConfigsResponse()
    wanted = []
    for asked in request.resources:
        resource = resource_of(asked.resource_type, asked.resource_name)
        if isinstance(resource, Refused):
            response.responses.append(
                AlterConfigsResourceResponse(
                    error_code=resource.error_code,
                    error_message=resource.text,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                )
            )
        else:
            configs = {config.name: config.value for config in asked.configs}
            wanted.append(ConfigReplacement(resource, configs))
    answers = await context.services.controller.alter_configs(
        wanted, validate_only=request.validate_only
    )
    response.responses += [
        AlterConfigsResourceResponse(
            error_code=answer.error_code,
            error_message=answer.message,
            resource_type=type_of(answer.resource),
            resource_name=answer.resource.name,
        )
        for answer in answers
    ]
    return response
