"""ConsumerGroupDescribe (key 69), versions 0 and 1: groups of the new consumer protocol.

- v1 whether a member speaks the classic or the new protocol
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from floodmark.apis.authorized_operations import ALL_ON_GROUP
from floodmark.apis.context import RequestContext
from floodmark.apis.group_requests import serves_consumer_protocol, when_all
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
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
