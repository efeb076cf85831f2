"""ConsumerGroupHeartbeat (key 68), versions 0 and 1: the new consumer protocol's only request.

It joins, stays, gives up and receives partitions, and leaves (KIP-848). Member epoch 0 joins, -1
leaves, -2 announces that a static member will return.

- v1 pattern subscriptions (RE2), and the client generates the member id
"""

from __future__ import annotations

from floodmark.apis.access import Access, Needs, group
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred
from floodmark.apis.group_requests import client_of, serves_consumer_protocol
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

ACCESS = Access(
    needs=(
        group(Operation.READ),
        Needs(
            operation=Operation.DESCRIBE, kind=ResourceKind.TOPIC, names="subscribed_topic_names"
        ),
    ),
    inside=("a pattern finds no TOPIC without DESCRIBE",),
)


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Deferred[ConsumerGroupHeartbeatResponse]:
    if not serves_consumer_protocol(context):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return context.services.groups.consumer_group_heartbeat(client_of(context), request)
