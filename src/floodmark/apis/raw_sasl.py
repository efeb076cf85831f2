"""Handles SASL tokens after SaslHandshake v0: frames without a header. Called by dispatch.

They cannot carry an error, so a failing client sees the connection close.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from floodmark.apis.sasl_sessions import SaslFailed, session_of
from floodmark.network.request_channel import CloseConnection, Outcome, Response
from floodmark.promise import Promise

if TYPE_CHECKING:
    from floodmark.apis.context import Services
    from floodmark.network.connection import Peer


def is_raw(peer: Peer) -> bool:
    return peer.authentication is not None and peer.authentication.is_raw


def raw_token(services: Services, peer: Peer, frame: memoryview) -> Outcome:
    authenticator = services.authenticator
    assert authenticator is not None
    try:
        reply, _ = session_of(peer, authenticator).step(bytes(frame), services.clock.now_ms())
    except SaslFailed as failure:
        promise: Promise[Response] = Promise()
        asyncio.get_running_loop().call_later(
            authenticator.failure_delay_ms / 1000, promise.fail, CloseConnection(str(failure))
        )
        return promise
    return reply
