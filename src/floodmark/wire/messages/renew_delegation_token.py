"""RenewDelegationToken (API key 39), versions 1 to 2.

Prolongs a delegation token.

- v1: the broker answers before it throttles.
- v2: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import binary, int16, int32, int64, message


@message(ApiKey.RENEW_DELEGATION_TOKEN, "request", versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes = binary()
    renew_period_ms: int = int64()


@message(ApiKey.RENEW_DELEGATION_TOKEN, "response", versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
