"""A connection's SASL state: handshake, mechanism steps, reauthentication.

Driven by `handlers.sasl_handshake` and `handlers.sasl_authenticate`, and by `apis.dispatch` for the
raw tokens of SaslHandshake v0. Stored at the peer as `authentication`.

A session may expire (KIP-368). The peer is then unauthenticated again: it can only reauthenticate
as the same user with the same mechanism.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from floodmark.apis.authenticator import Authenticator
from floodmark.apis.farewell import Farewell
from floodmark.network.principal import Principal
from floodmark.network.request_channel import CloseConnection
from floodmark.promise import Promise
from floodmark.security.errors import AuthenticationFailed, ProtocolViolation
from floodmark.security.sasl import Identity, ServerMechanism

if TYPE_CHECKING:
    from floodmark.network.connection import Peer

MIN_REAUTHENTICATION_S = 1.0
"""As in Kafka: more frequent reauthentication is refused."""


class SaslFailed(Exception):
    """`text` is sent to the client."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(reason)
        self.text = text


class SaslSession:
    def __init__(self, peer: Peer, authenticator: Authenticator) -> None:
        self._peer = peer
        self._authenticator = authenticator
        self._mechanism = ""
        self._machine: ServerMechanism | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._began_s = 0.0
        self.identity: Identity | None = None
        # Whether tokens arrive without a request header, after SaslHandshake v0.
        self.is_raw = False

    @property
    def is_under_way(self) -> bool:
        return self._machine is not None

    @property
    def may_begin(self) -> bool:
        """An authenticated client may reauthenticate only if its session expires."""
        if self.identity is None:
            return True
        is_due = asyncio.get_running_loop().time() - self._began_s >= MIN_REAUTHENTICATION_S
        return self._expiry is not None and is_due

    def begin(self, mechanism: str, *, is_raw: bool) -> None:
        """Raises CloseConnection if the client changes its mechanism."""
        if self.identity is not None and mechanism != self._mechanism:
            raise CloseConnection(f"reauthentication with {mechanism} instead of {self._mechanism}")
        self._mechanism = mechanism
        self._machine = self._authenticator.begin(self._peer.listener_name, mechanism)
        self._began_s = asyncio.get_running_loop().time()
        self.is_raw = is_raw
        self._peer.forget_principal()

    def step(self, message: bytes, now_ms: int) -> tuple[bytes, int]:
        """The response to a token and, with the last one, the session lifetime (0 for unlimited).

        Raises SaslFailed if authentication fails.
        """
        if self._machine is None:
            raise CloseConnection("SASL_AUTHENTICATE before a handshake")
        try:
            step = self._machine.step(message)
            lifetime_ms = 0 if step.identity is None else self._finish(step.identity, now_ms)
        except AuthenticationFailed as problem:
            self._machine = None
            raise self._failed(problem) from None
        return step.reply, lifetime_ms

    def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _finish(self, identity: Identity, now_ms: int) -> int:
        if self.identity is not None and identity.name != self.identity.name:
            raise AuthenticationFailed(
                "Cannot change principals during re-authentication from "
                f"User:{self.identity.name}: User:{identity.name}"
            )
        lifetime_ms = self._authenticator.max_session_ms(self._peer.listener_name, self._mechanism)
        if identity.expires_ms is not None:
            left_ms = identity.expires_ms - now_ms
            if left_ms <= 0:
                raise AuthenticationFailed("the token has expired")
            lifetime_ms = min(lifetime_ms, left_ms) if lifetime_ms else left_ms
        self.identity = identity
        self._machine = None
        self.is_raw = False
        self._peer.authenticate(Principal("User", identity.name))
        self._end_after(lifetime_ms)
        return lifetime_ms

    def _end_after(self, lifetime_ms: int) -> None:
        self.close()
        if lifetime_ms:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(lifetime_ms / 1000, self._peer.forget_principal)

    def _failed(self, problem: AuthenticationFailed) -> SaslFailed:
        text = str(problem)
        if isinstance(problem, ProtocolViolation):
            again = "authentication" if self.identity is None else "re-authentication"
            text = (
                f"Authentication failed during {again} due to invalid credentials with SASL "
                f"mechanism {self._mechanism}"
            )
        reason = f"authentication with {self._mechanism} failed: {problem}"
        return SaslFailed(text, reason)


def session_of(peer: Peer, authenticator: Authenticator) -> SaslSession:
    if peer.authentication is None:
        peer.authentication = SaslSession(peer, authenticator)
    assert isinstance(peer.authentication, SaslSession)
    return peer.authentication


def closing(failure: SaslFailed, last_words: object, delay_ms: int) -> Promise[Farewell]:
    """The refusal, delayed to slow down password guessing (KIP-306)."""
    promise: Promise[Farewell] = Promise()
    answer = Farewell(str(failure), last_words)
    handle = asyncio.get_running_loop().call_later(delay_ms / 1000, promise.set, answer)
    promise.on_abandoned = handle.cancel
    return promise
