"""ExpireDelegationToken (API key 40), versions 1 to 2.

Ends a delegation token, at once or at a time.

- v1: the broker answers before it throttles.
- v2: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import binary, int16, int32, int64, message


@message(ApiKey.EXPIRE_DELEGATION_TOKEN, "request", versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()


@message(ApiKey.EXPIRE_DELEGATION_TOKEN, "response", versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
