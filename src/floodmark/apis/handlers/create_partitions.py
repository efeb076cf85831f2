"""CreatePartitions (key 37), versions 0 to 3: more partitions for a topic, never fewer (SPEC L6).

Each topic gets its own result. v2 is flexible.
"""

from __future__ import annotations

from floodmark.apis.access import Access, each_topic
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.controller_outcomes import decided
from floodmark.controller.partitions import GrownTopic, MorePartitions
from floodmark.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

ACCESS = Access(each=(each_topic(Operation.ALTER, answers="results", text=None),))


async def handle(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    wanted = [
        MorePartitions(
            topic.name,
            topic.count,
            None
            if topic.assignments is None
            else [tuple(assignment.broker_ids) for assignment in topic.assignments],
        )
        for topic in request.topics
    ]
    results = await decided(
        context.services.controller.create_partitions(wanted, validate_only=request.validate_only),
        lambda code, text: [GrownTopic(topic.name, code, text) for topic in wanted],
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=result.name, error_code=result.error_code, error_message=result.message
            )
            for result in results
        ]
    )
