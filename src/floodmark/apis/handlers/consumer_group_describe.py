"""ConsumerGroupDescribe (key 69), versions 0 and 1: groups of the new consumer protocol.

- v1 whether a member uses the classic or the new protocol
"""

from __future__ import annotations

from floodmark.apis.access import Reviews
from floodmark.apis.authorizer import Guard, Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.group_requests import (
    allow_all_operations,
    describing_groups,
    serves_consumer_protocol,
    when_all,
)
from floodmark.network.request_channel import Waiting
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _refuse_unseen_topics(
    context: RequestContext, guard: Guard, response: ConsumerGroupDescribeResponse
) -> None:
    """A group reveals the topics it reads. As in Kafka, one hidden topic hides the group."""

    def is_seen(group: DescribedGroup) -> bool:
        topics = {
            assigned.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for assigned in assignment.topic_partitions
        }
        return all(
            guard.allows(Operation.DESCRIBE, Resource(ResourceKind.TOPIC, name)) for name in topics
        )

    response.groups = [
        group
        if is_seen(group)
        else DescribedGroup(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has described topic(s) that the client is not authorized to "
            "describe.",
        )
        for group in response.groups
    ]


ACCESS = describing_groups(
    "group_ids", Reviews("refuses each GROUP of a TOPIC without DESCRIBE", _refuse_unseen_topics)
)


def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Waiting[ConsumerGroupDescribeResponse]:
    if not serves_consumer_protocol(context):
        return ConsumerGroupDescribeResponse(
            groups=[
                DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
                for group_id in request.group_ids
            ]
        )
    groups = context.services.groups
    answers = [groups.describe_consumer_group(group_id) for group_id in request.group_ids]

    def finish(described: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            allow_all_operations(described)
        return ConsumerGroupDescribeResponse(groups=described)

    return when_all(answers, finish)
