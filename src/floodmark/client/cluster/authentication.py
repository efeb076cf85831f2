"""The client side of the SASL exchange: the handshake, then the mechanism's tokens.

Called by `connection.py` when a connection opens, and again before its session expires.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from floodmark.client.errors import AuthenticationError, ConnectionFailed, KafkaError
from floodmark.security.errors import AuthenticationFailed
from floodmark.security.sasl import ClientMechanism
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from floodmark.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Ask = Callable[[Any], Awaitable[Any]]


async def authenticate(
    address: str, mechanism_name: str, mechanism: ClientMechanism, ask: Ask
) -> int:
    """Returns the session lifetime in ms; 0 means the session never expires.

    Raises AuthenticationError if the broker refuses us or cannot prove its identity.
    """
    handshake: SaslHandshakeResponse = await ask(SaslHandshakeRequest(mechanism=mechanism_name))
    if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"{address} does not support the SASL mechanism {mechanism_name}; it supports "
            f"{', '.join(handshake.mechanisms)}",
            handshake.error_code,
        )
    if handshake.error_code:
        raise AuthenticationError(
            f"{address} does not expect SASL here: check security.protocol", handshake.error_code
        )
    token: bytes | None = mechanism.first()
    lifetime_ms = 0
    while token is not None:
        answer = await _send(address, token, ask)
        lifetime_ms = answer.session_lifetime_ms
        try:
            token = mechanism.step(bytes(answer.auth_bytes))
        except AuthenticationFailed as problem:
            raise AuthenticationError(f"{address}: {problem}") from problem
    return lifetime_ms


async def _send(address: str, token: bytes, ask: Ask) -> SaslAuthenticateResponse:
    try:
        answer: SaslAuthenticateResponse = await ask(SaslAuthenticateRequest(auth_bytes=token))
    except ConnectionFailed as problem:
        # The broker may just be restarting: only its explicit refusal is final.
        raise ConnectionFailed(f"during authentication: {problem.text}") from problem
    if answer.error_code:
        text = answer.error_message or KafkaError(answer.error_code).text
        raise AuthenticationError(text, answer.error_code)
    return answer
