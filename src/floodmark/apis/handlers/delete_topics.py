"""DeleteTopics (key 20), versions 1 to 6: by name, or from v6 on by id.

`delete.topic.enable=false` refuses all. v4 is flexible, v5 adds an error text.
"""

from __future__ import annotations

from floodmark.apis.access import Access, each_topic, topic_name
from floodmark.apis.authorizer import Guard, Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.controller_outcomes import decided
from floodmark.controller.topics import DeletedTopic, TopicRef
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BY_ID_SINCE = 6
DISABLED_SINCE = 3


def _tell_describable(
    context: RequestContext,
    guard: Guard,
    topic: DeleteTopicState | str,
    refusal: DeletableTopicResult,
) -> None:
    """A client that may see a topic learns its name, or that it does not exist."""
    if isinstance(topic, DeleteTopicState):
        refusal.name = topic.name
    name = topic_name(context, topic)
    if name is None or not guard.allows(Operation.DESCRIBE, Resource(ResourceKind.TOPIC, name)):
        return
    if name in context.services.image.topics:
        refusal.name = name
    else:
        refusal.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refusal.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message


ACCESS = Access(
    each=(
        each_topic(
            Operation.DELETE,
            "topic_names",
            "responses",
            or_cluster=Operation.DELETE,
            amend=_tell_describable,
            versions="1-5",
        ),
        each_topic(
            Operation.DELETE,
            "topics",
            "responses",
            or_cluster=Operation.DELETE,
            amend=_tell_describable,
            refuses_unknown_ids=True,
            versions="6+",
        ),
    )
)


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if context.api_version >= BY_ID_SINCE:
        wanted = [TopicRef(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wanted = [TopicRef(name) for name in request.topic_names]
    if not context.services.config.get_bool("delete.topic.enable"):
        known = context.api_version >= DISABLED_SINCE
        error = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name=ref.name, topic_id=ref.topic_id, error_code=error)
                for ref in wanted
            ]
        )
    deleted = await decided(
        context.services.controller.delete_topics(wanted),
        lambda code, text: [DeletedTopic(ref.name, ref.topic_id, code, text) for ref in wanted],
    )
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=topic.error_code,
                error_message=topic.message,
            )
            for topic in deleted
        ]
    )
