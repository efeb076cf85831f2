"""CreateTopics (key 19), versions 2 to 7: create topics, each with its own result.

- v4 -1 for the default number of partitions and replicas; v5 flexible, settings in the response
- v7 topic ids
"""

from __future__ import annotations

from collections.abc import Mapping

from floodmark.apis.access import Access, Reviews, each_topic
from floodmark.apis.authorizer import Guard, Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.controller_outcomes import decided
from floodmark.config import BrokerConfig
from floodmark.config.describe import describe_topic
from floodmark.controller.topics import CreatedTopic, NewTopic
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


def _hide_configs(context: RequestContext, guard: Guard, response: CreateTopicsResponse) -> None:
    for topic in response.topics:
        resource = Resource(ResourceKind.TOPIC, topic.name)
        if not topic.error_code and not guard.allows(Operation.DESCRIBE_CONFIGS, resource):
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []


ACCESS = Access(
    each=(each_topic(Operation.CREATE, or_cluster=Operation.CREATE, text="Authorization failed."),),
    answer=(Reviews("hides the settings of each TOPIC without DESCRIBE_CONFIGS", _hide_configs),),
)


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    wanted = [
        NewTopic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            [(a.partition_index, tuple(a.broker_ids)) for a in topic.assignments],
            {config.name: config.value for config in topic.configs},
        )
        for topic in request.topics
    ]
    created = await decided(
        context.services.controller.create_topics(wanted, validate_only=request.validate_only),
        lambda code, text: [CreatedTopic(topic.name, code, text) for topic in wanted],
    )
    described = _Described(context.services.config)
    return CreateTopicsResponse(topics=[_result(topic, described) for topic in created])


class _Described:
    """The settings of each topic. Topics created with the same ones share the list."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._known: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def __call__(self, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        key = frozenset(overrides.items())
        if key not in self._known:
            self._known[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in describe_topic(self._config, overrides)
            ]
        return self._known[key]


def _result(topic: CreatedTopic, described: _Described) -> CreatableTopicResult:
    result = CreatableTopicResult(
        name=topic.name, error_code=topic.error_code, error_message=topic.message
    )
    if topic.error_code is not ErrorCode.NONE:
        return result
    result.topic_id = topic.topic_id
    result.num_partitions = topic.num_partitions
    result.replication_factor = topic.replication_factor
    result.configs = described(topic.configs)
    return result
