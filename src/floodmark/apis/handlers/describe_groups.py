"""DescribeGroups (key 15), versions 0 to 6: classic groups with their members.

- v3 authorized operations; v4 instance ids; v5 flexible
- v6 an unknown group is GROUP_ID_NOT_FOUND with a text; before, it was a group in state Dead
"""

from __future__ import annotations

from floodmark.apis.context import RequestContext
from floodmark.apis.group_requests import allow_all_operations, describing_groups, when_all
from floodmark.network.request_channel import Waiting
from floodmark.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

ACCESS = describing_groups("groups")


def handle(
    context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Waiting[DescribeGroupsResponse]:
    groups, api_version = context.services.groups, context.api_version
    answers = [groups.describe_group(api_version, group_id) for group_id in request.groups]

    def finish(described: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            allow_all_operations(described)
        return DescribeGroupsResponse(groups=described)

    return when_all(answers, finish)
