"""SaslHandshake (API key 17), versions 0 to 1.

Chooses a SASL mechanism.
It never became flexible: old clients negotiate its version wrongly (KAFKA-9577).

- v0: the mechanism's bytes follow without Kafka's framing.
- v1: they follow in SaslAuthenticate requests.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, message, string


@message(ApiKey.SASL_HANDSHAKE, "request", versions="0-1", flexible=None)
class SaslHandshakeRequest:
    mechanism: str = string()


@message(ApiKey.SASL_HANDSHAKE, "response", versions="0-1", flexible=None)
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: list[str] = array("string")
