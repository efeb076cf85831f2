"""Reads and changes topic, broker and group settings. `admin.py` exposes these as methods.

A broker serves its own settings. Any broker or the controller serves all others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from floodmark.client.admin.admin_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    ResourceConfig,
    ResourceOutcome,
)
from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import Connection
from floodmark.client.errors import error_of, raise_for_code
from floodmark.wire.messages import alter_configs as legacy
from floodmark.wire.messages import incremental_alter_configs as incremental
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from floodmark.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from floodmark.wire.numbers import ConfigSource, ResourceType

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


async def list_resources(
    cluster: Cluster, types: Iterable[ResourceType] = ()
) -> list[tuple[int, str]]:
    """(resource type, name) of everything that has settings; no types means all of them."""
    message = ListConfigResourcesRequest(resource_types=[int(kind) for kind in types])
    response: ListConfigResourcesResponse = await cluster.request(message)
    raise_for_code(response.error_code)
    return [(item.resource_type, item.resource_name) for item in response.config_resources]


async def incremental_alter(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
) -> list[ResourceOutcome]:
    """Changes the named settings and keeps the others."""

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
    """The older AlterConfigs: settings not named return to their default."""

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
    """Maps each node to the resources to ask it for. None means any node, or the controller."""
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
