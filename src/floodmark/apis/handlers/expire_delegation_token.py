"""ExpireDelegationToken (key 40), versions 1 to 2: end a token at a time, or at once.

ACLs have no say: only the owner and the renewers may, and they must know the token's HMAC.
"""

from __future__ import annotations

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.apis.delegation_tokens import (
    NO_TIME_MS,
    TokenRefused,
    check_allowed,
    requester_of,
    service_of,
)
from floodmark.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

ACCESS = NOTHING


async def handle(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    try:
        check_allowed(context)
        expiry_ms = await service_of(context).expire(
            bytes(request.hmac), str(requester_of(context)), request.expiry_time_period_ms
        )
    except TokenRefused as refused:
        return ExpireDelegationTokenResponse(
            error_code=refused.error_code, expiry_timestamp_ms=NO_TIME_MS
        )
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
