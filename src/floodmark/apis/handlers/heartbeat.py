"""Heartbeat (key 12), versions 0 to 4: keeps a classic member alive and announces rebalances.

- v3 static members; v4 flexible
"""

from __future__ import annotations

from floodmark.apis.access import Access, group
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.promise import Promise
from floodmark.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

ACCESS = Access(needs=(group(Operation.READ),))


def handle(
    context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Promise[HeartbeatResponse]:
    return context.services.groups.heartbeat(request)
