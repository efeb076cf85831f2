"""RenewDelegationToken (key 39), versions 1 to 2: prolong a token, as its owner or a renewer.

ACLs have no say: only the owner and the renewers may, and they must know the token's HMAC.
"""

from __future__ import annotations

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.apis.delegation_tokens import changed_expiry
from floodmark.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

ACCESS = NOTHING


async def handle(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    error_code, expiry_ms = await changed_expiry(
        context,
        lambda tokens, requester: tokens.renew(
            bytes(request.hmac), requester, request.renew_period_ms
        ),
    )
    return RenewDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=expiry_ms)
