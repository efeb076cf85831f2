"""SyncGroup (key 14), versions 0 to 5: the leader sends the assignment, each member gets its part.

- v3 static members; v4 flexible; v5 the client states the protocol it expects (KIP-559)
"""

from __future__ import annotations

from floodmark.apis.access import Access, group
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_NEEDED_SINCE = 5

ACCESS = Access(needs=(group(Operation.READ),))


def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Promise[SyncGroupResponse]:
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= PROTOCOL_NEEDED_SINCE and not names_protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return context.services.groups.sync_group(request)
