"""JoinGroup (key 11), versions 0 to 9: become, or stay, a member of a classic group.

The answer comes when the whole group has joined, so it is nearly always a future.

- v1 a rebalance timeout of its own; v4 a member id is given first (KIP-394)
- v5 static members (KIP-345); v6 flexible; v7 the protocol type is answered
- v8 a reason; v9 a restarted static leader may skip the assignment (KIP-814)
"""

from __future__ import annotations

from floodmark.apis.context import RequestContext
from floodmark.apis.group_requests import client_of
from floodmark.apis.later import Later, later
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_SINCE = 7


def handle(context: RequestContext, request: JoinGroupRequest) -> Later[JoinGroupResponse]:
    answer = context.services.groups.join_group(client_of(context), request)
    if context.api_version >= NULL_PROTOCOL_SINCE:
        return answer
    return later(answer, _without_null)


def _without_null(response: JoinGroupResponse) -> JoinGroupResponse:
    """Before v7 no protocol was an empty text."""
    if response.protocol_name is None:
        response.protocol_name = ""
    return response
