"""RenewDelegationToken (key 39), versions 1 to 2: prolong a token, as its owner or a renewer.

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
from floodmark.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

ACCESS = NOTHING


async def handle(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    try:
        check_allowed(context)
        expiry_ms = await service_of(context).renew(
            bytes(request.hmac), str(requester_of(context)), request.renew_period_ms
        )
    except TokenRefused as refused:
        return RenewDelegationTokenResponse(
            error_code=refused.error_code, expiry_timestamp_ms=NO_TIME_MS
        )
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
