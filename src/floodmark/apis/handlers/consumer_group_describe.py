"""ConsumerGroupDescribe (key 69), versions 0 and 1: groups of the new consumer protocol.

- v1 whether a member speaks the classic or the new protocol
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from floodmark.apis.access import Access, Each, Reviews, Tells, itself
from floodmark.apis.authorized_operations import ALL_ON_GROUP
from floodmark.apis.authorizer import Guard, Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.group_requests import serves_consumer_protocol, when_all
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _refuse_unseen_topics(
    context: RequestContext, guard: Guard, response: ConsumerGroupDescribeResponse
) -> None:
    """A group says which topics it reads; as in Kafka, one unseen topic hides all of it."""

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


ACCESS = Access(
    each=(
        Each(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.GROUP,
            items="group_ids",
            answers="groups",
            name=itself,
            text=None,
        ),
    ),
    answer=(
        Tells(
            kind=ResourceKind.GROUP, field="authorized_operations", items="groups", name="group_id"
        ),
        Reviews("refuses each GROUP of a TOPIC without DESCRIBE", _refuse_unseen_topics),
    ),
)


def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Coroutine[Any, Any, ConsumerGroupDescribeResponse]:
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
            for group in described:
                if not group.error_code:
                    group.authorized_operations = ALL_ON_GROUP
        return ConsumerGroupDescribeResponse(groups=described)

    return when_all(answers, finish)
