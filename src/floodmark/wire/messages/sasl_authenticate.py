"""SaslAuthenticate (API key 36), versions 0 to 2.

Carries the bytes of a SASL mechanism.

- v1: lifetime of the session, after which the client authenticates again (KIP-368).
- v2: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import binary, int16, int64, message, string


@message(ApiKey.SASL_AUTHENTICATE, "request", versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes = binary()


@message(ApiKey.SASL_AUTHENTICATE, "response", versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+", ignorable=True)
