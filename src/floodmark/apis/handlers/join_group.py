"""JoinGroup (key 11), versions 0 to 9: join, or rejoin, a classic group.

The answer comes when the whole group has joined, so it is nearly always a promise.

- v1 a separate rebalance timeout; v4 the member id is assigned first (KIP-394)
- v5 static members (KIP-345); v6 flexible; v7 the protocol type in the response
- v8 a reason; v9 a restarted static leader may skip the assignment (KIP-814)
"""

from __future__ import annotations

from floodmark.apis.access import Access, group
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred, after
from floodmark.apis.group_requests import client_of
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_SINCE = 7

ACCESS = Access(needs=(group(Operation.READ),))


def handle(context: RequestContext, request: JoinGroupRequest) -> Deferred[JoinGroupResponse]:
    no_protocol = None if context.api_version >= NULL_PROTOCOL_SINCE else ""

    def fit(response: JoinGroupResponse) -> JoinGroupResponse:
        """As in Kafka, a missing protocol is null since v7 and was an empty text before."""
        response.protocol_name = response.protocol_name or no_protocol
        return response

    return after(context.services.groups.join_group(client_of(context), request), fit)
