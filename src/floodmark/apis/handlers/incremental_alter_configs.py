"""IncrementalAlterConfigs (key 44), versions 0 and 1: change individual settings of a resource.

Sets, deletes and, for lists, appends and subtracts. Log levels belong to this process; the
controller handles all other settings, and other brokers forward them to it. v1 is flexible.
"""

from __future__ import annotations

from floodmark.apis.access import Access
from floodmark.apis.authorizer import Operation
from floodmark.apis.broker_loggers import alter_loggers
from floodmark.apis.config_changes import change_configs, times_asked
from floodmark.apis.config_resources import each_config_resource
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred
from floodmark.controller.configs import ConfigAlteration, ConfigStep
from floodmark.controller.decision import ControllerUnavailable
from floodmark.metadata.image import ConfigResource
from floodmark.network.request_channel import Waiting
from floodmark.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from floodmark.wire.numbers import ResourceType

ACCESS = Access(each=each_config_resource(Operation.ALTER_CONFIGS, "responses"))


def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Deferred[IncrementalAlterConfigsResponse]:
    work = _handle(context, request)
    return work if context.services.controller.is_active else Waiting(work)


async def _handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    controller, broker_id = context.services.controller, context.services.broker_id
    loggers: list[AlterConfigsResource] = []
    others: list[AlterConfigsResource] = []
    for resource in request.resources:
        is_logger = resource.resource_type == ResourceType.BROKER_LOGGER
        (loggers if is_logger else others).append(resource)
    validate_only = request.validate_only
    answers = alter_loggers(broker_id, loggers, times_asked(loggers), validate_only=validate_only)
    passed_on = None if controller.is_active or not others else await _passed_on(context, request)
    if passed_on is not None:
        return IncrementalAlterConfigsResponse(responses=[*answers, *passed_on])
    answers += await change_configs(
        context.services,
        others,
        _alteration,
        lambda wishes: controller.incremental_alter_configs(wishes, validate_only=validate_only),
        AlterConfigsResourceResponse,
    )
    return IncrementalAlterConfigsResponse(responses=answers)


async def _passed_on(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> list[AlterConfigsResourceResponse] | None:
    """Returns the controller's results, or None if there is no controller."""
    others = [x for x in request.resources if x.resource_type != ResourceType.BROKER_LOGGER]
    message = IncrementalAlterConfigsRequest(resources=others, validate_only=request.validate_only)
    try:
        response: IncrementalAlterConfigsResponse = (
            await context.services.controller_client.request(message, context.api_version)
        )
    except ControllerUnavailable:
        return None
    return response.responses


def _alteration(resource: ConfigResource, asked: AlterConfigsResource) -> ConfigAlteration:
    steps = [ConfigStep(c.name, c.config_operation, c.value) for c in asked.configs]
    return ConfigAlteration(resource, steps)
