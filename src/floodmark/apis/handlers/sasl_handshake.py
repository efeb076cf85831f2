"""SaslHandshake (key 17), versions 0 to 1: which mechanism the client authenticates by.

- v0: the mechanism's tokens follow as bare frames (`apis.raw_sasl`).
- v1: they follow in SaslAuthenticate requests.

On a listener without SASL Kafka answers ILLEGAL_SASL_STATE, so a client with the wrong settings is
told why; and to a client that is authenticated and whose session has no end.
"""

from __future__ import annotations

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.apis.farewell import Farewell
from floodmark.apis.sasl_sessions import session_of
from floodmark.network.request_channel import CloseConnection
from floodmark.security.errors import SecurityError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ACCESS = NOTHING


def handle(
    context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse | Farewell:
    peer, authenticator = context.peer, context.services.authenticator
    if authenticator is None or not peer.security_protocol.startswith("SASL"):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    session = session_of(peer, authenticator)
    if session.is_under_way:
        raise CloseConnection("SASL_HANDSHAKE during authentication")
    if not session.may_begin:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    mechanisms = list(authenticator.mechanisms(peer.listener_name))
    if request.mechanism not in mechanisms:
        refusal = SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms
        )
        return Farewell(f"SASL mechanism {request.mechanism[:40]!r} is not enabled", refusal)
    try:
        session.begin(request.mechanism, is_raw=context.api_version == 0)
    except SecurityError as problem:
        raise CloseConnection(str(problem)) from problem
    return SaslHandshakeResponse(mechanisms=mechanisms)
