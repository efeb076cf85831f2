"""Forwards requests that only the controller can decide. Any broker accepts them.

Used by `apis.dispatch`. Without a controller, the broker's own handler responds with
NOT_CONTROLLER. Clients then look for the controller and retry.
"""

from __future__ import annotations

from typing import Any

from floodmark.apis.context import RequestContext
from floodmark.apis.route import Handle
from floodmark.controller.decision import ControllerUnavailable
from floodmark.network.request_channel import Waiting
from floodmark.wire.api_keys import ApiKey

FORWARDED = frozenset(
    {
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ELECT_LEADERS,
        # Only the controller knows for sure which replicas are being added and removed.
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
    }
)


def forwarding(handle: Handle) -> Handle:
    """Calls `handle` on the controller, and returns the controller's response elsewhere."""

    def handle_or_forward(context: RequestContext, request: Any) -> Any:
        if context.services.controller.is_active:
            return handle(context, request)
        return Waiting(_forward(context, request, handle))

    return handle_or_forward


async def _forward(context: RequestContext, request: Any, handle: Handle) -> Any:
    """Returns the controller's response, or that of `handle` if there is no controller."""
    try:
        return await context.services.controller_client.request(request, context.api_version)
    except ControllerUnavailable:
        return await handle(context, request)
