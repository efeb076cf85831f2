"""LeaveGroup (key 13), versions 0 to 5: members go, and the rest rebalances at once.

- v3 many members in one request, static ones by their instance id (KIP-345)
- v4 flexible; v5 a reason
"""

from __future__ import annotations

import asyncio

from floodmark.apis.context import RequestContext
from floodmark.apis.group_requests import client_of, then
from floodmark.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

MANY_MEMBERS_SINCE = 3


def handle(
    context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
    if context.api_version >= MANY_MEMBERS_SINCE:
        return context.services.groups.leave_group(client_of(context), request)
    request.members = [MemberIdentity(member_id=request.member_id)]
    answer = context.services.groups.leave_group(client_of(context), request)
    return then(answer, _of_one_member)


def _of_one_member(response: LeaveGroupResponse) -> LeaveGroupResponse:
    error_code = response.error_code
    if not error_code and response.members:
        error_code = response.members[0].error_code
    return LeaveGroupResponse(error_code=error_code)
