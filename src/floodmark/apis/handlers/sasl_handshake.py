"""SaslHandshake (key 17), versions 0 to 1: agrees on the client's SASL mechanism.

- v0: the mechanism's tokens follow as bare frames (`apis.raw_sasl`).
- v1: they follow in SaslAuthenticate requests.

As in Kafka, responds ILLEGAL_SASL_STATE on a listener without SASL, so that a misconfigured client
learns why, and to an authenticated client whose session does not expire.
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
