"""DescribeDelegationToken (key 41), versions 1 to 3: tokens are for authenticated clients.

On a listener without SASL or TLS Kafka answers like this.
"""

from __future__ import annotations

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

ACCESS = NOTHING
"""Until tokens are served; then tokens are hidden without DESCRIBE on the DELEGATION_TOKEN."""


def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    )
