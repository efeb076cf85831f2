"""ExpireDelegationToken (key 40), versions 1 to 2: end a token at a time, or at once.

ACLs have no say: only the owner and the renewers may, and they must know the token's HMAC.
"""

from __future__ import annotations

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.apis.delegation_tokens import changed_expiry
from floodmark.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

ACCESS = NOTHING


async def handle(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    error_code, expiry_ms = await changed_expiry(
        context,
        lambda tokens, requester: tokens.expire(
            bytes(request.hmac), requester, request.expiry_time_period_ms
        ),
    )
    return ExpireDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=expiry_ms)
