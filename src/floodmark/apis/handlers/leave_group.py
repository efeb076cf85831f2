"""LeaveGroup (key 13), versions 0 to 5: members leave, and the rest rebalance immediately.

- v3 many members in one request, static ones by their instance id (KIP-345)
- v4 flexible; v5 a reason
"""

from __future__ import annotations

from floodmark.apis.access import Access, group
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

MANY_MEMBERS_SINCE = 3

ACCESS = Access(needs=(group(Operation.READ),))


def handle(context: RequestContext, request: LeaveGroupRequest) -> Deferred[LeaveGroupResponse]:
    if context.api_version >= MANY_MEMBERS_SINCE:
        return context.services.groups.leave_group(request)
    request.members = [MemberIdentity(member_id=request.member_id)]
    return after(context.services.groups.leave_group(request), _of_one_member)


def _of_one_member(response: LeaveGroupResponse) -> LeaveGroupResponse:
    error_code = response.error_code
    if not error_code and response.members:
        error_code = response.members[0].error_code
    return LeaveGroupResponse(error_code=error_code)
