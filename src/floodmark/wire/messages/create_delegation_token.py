"""CreateDelegationToken (API key 38), versions 1 to 3.

Creates a delegation token.

- v1: the broker answers before it throttles.
- v2: flexible.
- v3: a token for another owner (KIP-373).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, binary, int16, int32, int64, message, string, struct


@struct
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@message(ApiKey.CREATE_DELEGATION_TOKEN, "request", versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@message(ApiKey.CREATE_DELEGATION_TOKEN, "response", versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32()
