"""Requests that only the controller can decide: any broker takes them and passes them on to it.

Used by `apis.dispatch`. Without a controller the broker's own handler answers, which says
NOT_CONTROLLER: clients look for the controller then, and try again.
"""

from __future__ import annotations

from typing import Any

from floodmark.apis.context import RequestContext
from floodmark.apis.route import Handle
from floodmark.controller.controller import ControllerUnavailable
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
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        # Which replicas are being added and removed, only the controller tells for sure.
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
    }
)


def forwarding(handle: Handle) -> Handle:
    """`handle` on the controller, and the controller's answer elsewhere."""

    def handle_or_forward(context: RequestContext, request: Any) -> Any:
        if context.services.controller.is_active:
            return handle(context, request)
        return _forward(context, request, handle)

    return handle_or_forward


async def _forward(context: RequestContext, request: Any, handle: Handle) -> Any:
    try:
        return await context.services.controller_client.request(request, context.api_version)
    except ControllerUnavailable:
        return await handle(context, request)
