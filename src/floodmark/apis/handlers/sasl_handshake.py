"""SaslHandshake (key 17), versions 0 to 1: nobody is asked to authenticate.

On a listener without SASL Kafka answers like this, so a client with the wrong settings is told why.
"""

from __future__ import annotations

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ACCESS = NOTHING


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
