"""Reading and changing settings of topics, brokers and groups; `admin.py` offers these as methods.

Settings of a broker are served by that broker itself, all others by any broker or the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from floodmark.client.admin.admin_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ResourceConfig,
    ResourceOutcome,
    ResourceType,
)
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.errors import error_of
from floodmark.wire.messages import alter_configs as legacy
from floodmark.wire.messages import incremental_alter_configs as incremental
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)

T = TypeVar("T")

AlterResponse = legacy.AlterConfigsResponse | incremental.IncrementalAlterConfigsResponse


async def describe(
    cluster: Cluster,
    resources: Sequence[ConfigResource],
    *,
    keys: Sequence[str] | None = None,
    include_synonyms: bool = False,
    include_documentation: bool = False,
) -> list[ResourceConfig]:
    async def ask(connection: Connection, share: Sequence[ConfigResource]) -> list[ResourceConfig]:
        message = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if keys is None else list(keys),
                )
                for resource in share
            ],
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )
        response: DescribeConfigsResponse = await connection.request(message)
        return [
            ResourceConfig(
                _resource(result.resource_type, result.resource_name),
                {entry.name: _entry(entry) for entry in result.configs},
                error_of(result.error_code, result.error_message),
            )
            for result in response.results
        ]

    results: list[ResourceConfig] = []
    for node_id, share in _by_broker(resources).items():
        results += await _ask(cluster, node_id, share, ask, controller=False)
    return results


async def incremental_alter(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
) -> list[ResourceOutcome]:
    """Change the named settings and leave the others as they are."""

    async def ask(connection: Connection, share: Sequence[ConfigResource]) -> list[ResourceOutcome]:
        message = incremental.IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        incremental.AlterableConfig(
                            name=change.name, config_operation=change.operation, value=change.value
                        )
                        for change in changes[resource]
                    ],
                )
                for resource in share
            ],
            validate_only=validate_only,
        )
        return _outcomes(await connection.request(message))

    return await _alter(cluster, list(changes), ask)


async def replace(
    cluster: Cluster,
    configs: Mapping[ConfigResource, Mapping[str, str | None]],
    *,
    validate_only: bool = False,
) -> list[ResourceOutcome]:
    """The older AlterConfigs: what is not named goes back to its default."""

    async def ask(connection: Connection, share: Sequence[ConfigResource]) -> list[ResourceOutcome]:
        message = legacy.AlterConfigsRequest(
            resources=[
                legacy.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        legacy.AlterableConfig(name=name, value=value)
                        for name, value in configs[resource].items()
                    ],
                )
                for resource in share
            ],
            validate_only=validate_only,
        )
        return _outcomes(await connection.request(message))

    return await _alter(cluster, list(configs), ask)


Ask = Callable[[Connection, Sequence[ConfigResource]], Awaitable[list[ResourceOutcome]]]


async def _alter(
    cluster: Cluster, resources: Sequence[ConfigResource], ask: Ask
) -> list[ResourceOutcome]:
    results: list[ResourceOutcome] = []
    for node_id, share in _by_broker(resources).items():
        results += await _ask(cluster, node_id, share, ask, controller=True)
    return results


async def _ask(
    cluster: Cluster,
    node_id: int | None,
    share: Sequence[ConfigResource],
    ask: Callable[[Connection, Sequence[ConfigResource]], Awaitable[list[T]]],
    *,
    controller: bool,
) -> list[T]:
    async def attempt() -> list[T]:
        if node_id is not None:
            connection = await cluster.connection_to(node_id)
        elif controller:
            connection = await cluster.controller_connection()
        else:
            connection = await cluster.any_connection()
        return await ask(connection, share)

    return await cluster.retry(attempt)


def _by_broker(resources: Sequence[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Which node must be asked for which resource; None is any, or the controller."""
    grouped: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        per_broker = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
        node_id = int(resource.name) if per_broker and resource.name else None
        grouped.setdefault(node_id, []).append(resource)
    return grouped


def _resource(resource_type: int, name: str) -> ConfigResource:
    return ConfigResource(ResourceType(resource_type), name)


def _outcomes(response: AlterResponse) -> list[ResourceOutcome]:
    return [
        ResourceOutcome(
            _resource(answer.resource_type, answer.resource_name),
            error_of(answer.error_code, answer.error_message),
        )
        for answer in response.responses
    ]


def _entry(answer: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        answer.name,
        answer.value,
        ConfigSource(answer.config_source),
        answer.read_only,
        answer.is_sensitive,
        tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
            for synonym in answer.synonyms
        ),
        answer.documentation,
    )
