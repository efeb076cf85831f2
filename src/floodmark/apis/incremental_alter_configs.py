"""IncrementalAlterConfigs (key 44), versions 0 and 1: change single settings of a resource.

Set, delete, and for lists append and subtract.

v1 is flexible.
"""

from __future__ import annotations

from floodmark.apis.config_resources import Refused, resource_of, type_of
from floodmark.apis.context import RequestContext
from floodmark.controller.configs import ConfigAlteration, ConfigStep
from floodmark.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    response = IncrementalAlterConfigsResponse()
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
            steps = [ConfigStep(c.name, c.config_operation, c.value) for c in asked.configs]
            wanted.append(ConfigAlteration(resource, steps))
    answers = await context.services.controller.incremental_alter_configs(
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
