"""SaslAuthenticate (key 36), versions 0 to 2: carries the tokens of the agreed mechanism.

- v1: the response says when the client must reauthenticate (KIP-368).
- v2: flexible.

A failure is answered with a delay (`connection.failed.authentication.delay.ms`) and closes the
connection. On a listener without SASL, every client counts as authenticated, as in Kafka.
"""

from __future__ import annotations

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.apis.farewell import Farewell
from floodmark.apis.sasl_sessions import SaslFailed, closing, session_of
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

ACCESS = NOTHING


def handle(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Promise[Farewell]:
    peer, authenticator = context.peer, context.services.authenticator
    uses_sasl = peer.security_protocol.startswith("SASL")
    if authenticator is None or not uses_sasl or peer.principal is not None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    session = session_of(peer, authenticator)
    try:
        reply, lifetime_ms = session.step(
            bytes(request.auth_bytes), context.services.clock.now_ms()
        )
    except SaslFailed as failure:
        refusal = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=failure.text
        )
        return closing(failure, refusal, authenticator.failure_delay_ms)
    return SaslAuthenticateResponse(auth_bytes=reply, session_lifetime_ms=lifetime_ms)
