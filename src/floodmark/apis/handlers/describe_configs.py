"""DescribeConfigs (key 32), versions 1 to 4: topic, broker, logger and group settings.

Each setting comes with its source, its synonyms, whether it can be changed and, from v3 on, its
type and documentation. v4 is flexible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from floodmark.apis.access import Access
from floodmark.apis.authorizer import Operation
from floodmark.apis.broker_loggers import describe_loggers
from floodmark.apis.config_resources import each_config_resource
from floodmark.apis.context import RequestContext
from floodmark.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from floodmark.controller.topic_names import why_invalid
from floodmark.metadata.image import CLUSTER_DEFAULT
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from floodmark.wire.numbers import ResourceType

RESOURCE_TYPES = frozenset(ResourceType)

ACCESS = Access(each=each_config_resource(Operation.DESCRIBE_CONFIGS, "results"))


RESOURCES_PER_TURN = 50
"""A topic takes about a tenth of a millisecond. After this many, others get a turn of the loop."""


def handle(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Coroutine[object, object, DescribeConfigsResponse]:
    for resource in request.resources:
        if resource.resource_type not in RESOURCE_TYPES:
            # Kafka refuses the other resources too.
            return _refuse_all(request, f"Unexpected resource type {resource.resource_type}")
    if len(request.resources) > RESOURCES_PER_TURN:
        return _describe_in_turns(context, request)
    return DescribeConfigsResponse(
        results=[_describe(context, request, resource) for resource in request.resources]
    )


async def _describe_in_turns(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    results = []
    for number, resource in enumerate(request.resources):
        if number % RESOURCES_PER_TURN == 0:
            await asyncio.sleep(0)
        results.append(_describe(context, request, resource))
    return DescribeConfigsResponse(results=results)


def _refuse_all(request: DescribeConfigsRequest, text: str) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    entries, result.error_code, result.error_message = _entries(context, resource)
    result.configs = [_result(entry, request) for entry in entries]
    is_logger = resource.resource_type == ResourceType.BROKER_LOGGER
    if is_logger and result.error_code is ErrorCode.NONE:
        result.configs = describe_loggers(resource.configuration_keys or None)
    return result


def _entries(
    context: RequestContext, resource: DescribeConfigsResource
) -> tuple[list[ConfigEntry], ErrorCode, str | None]:
    services = context.services
    name = resource.resource_name
    # As in Kafka, both an empty list and null mean all settings.
    wanted = resource.configuration_keys or None
    if resource.resource_type == ResourceType.TOPIC:
        if name not in services.image.topics:
            reason = why_invalid(name) or f"The topic {name!r} does not exist."
            return [], services.why_unknown(name), reason
        overrides = services.image.config("topic", name)
        return describe_topic(services.config, overrides, wanted), ErrorCode.NONE, None
    if resource.resource_type == ResourceType.BROKER:
        if name == CLUSTER_DEFAULT:
            return describe_cluster_default(services.config, wanted), ErrorCode.NONE, None
        if name == str(services.broker_id):
            return describe_broker(services.config, wanted), ErrorCode.NONE, None
        return (
            [],
            ErrorCode.INVALID_REQUEST,
            _not_this_broker(name, f"{services.broker_id} or empty string,"),
        )
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            return [], ErrorCode.INVALID_REQUEST, "Group name must not be empty"
        overrides = services.image.config("group", name)
        return describe_group(services.config, overrides, wanted), ErrorCode.NONE, None
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        if not name:
            text = "Client metrics subscription name must not be empty"
            return [], ErrorCode.INVALID_REQUEST, text
        return [], ErrorCode.NONE, None
    if not name:
        return [], ErrorCode.INVALID_REQUEST, "Broker id must not be empty"
    if name != str(services.broker_id):
        return [], ErrorCode.INVALID_REQUEST, _not_this_broker(name, str(services.broker_id))
    return [], ErrorCode.NONE, None


def _not_this_broker(name: str, expected: str) -> str:
    if not name.lstrip("+-").isdecimal():
        return f"Broker id must be an integer, but it is: {name}"
    return f"Unexpected broker id, expected {expected} but received {name}"


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source)
            for s in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
