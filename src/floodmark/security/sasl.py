"""The interface of SASL mechanisms: state machines, bytes in and bytes out. PURE.

`apis.sasl_sessions` drives the servers, `client.cluster.authentication` the clients. A machine
serves one authentication. It does no IO: credentials and nonces are arguments.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
SCRAM_HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
MECHANISMS = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)


class Identity(NamedTuple):
    """A client's proven identity."""

    name: str
    expires_ms: int | None = None
    """When a token's proof expires."""
    is_by_token: bool = False
    """Whether the proof was a delegation token."""


class Step(NamedTuple):
    reply: bytes
    identity: Identity | None = None
    """Set by the last step: the client is authenticated."""


class ServerMechanism(Protocol):
    def step(self, message: bytes) -> Step:
        """Processes the client's next message. AuthenticationFailed ends the exchange."""


class ClientMechanism(Protocol):
    def first(self) -> bytes:
        """The message that starts the exchange."""

    def step(self, challenge: bytes) -> bytes | None:
        """The response to the server's message; None if there is nothing more to send.

        Raises AuthenticationFailed if the server cannot prove its identity."""
