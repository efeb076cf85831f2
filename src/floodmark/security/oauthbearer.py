"""SASL OAUTHBEARER (RFC 7628), both sides. PURE: the creator of a state machine validates tokens.

A refused token gets a JSON error as a challenge. The client acknowledges it with a byte, and only
then does the exchange fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from floodmark.security.errors import AuthenticationFailed, ProtocolViolation
from floodmark.security.sasl import Identity, Step

_SEPARATOR = "\x01"
_ACKNOWLEDGEMENT = b"\x01"
# Possessive repeats, as in `scram`, because unauthenticated peers send this.
_FIRST = re.compile(
    r"n,(?:a=(?P<authorization>(?:[^,=]|=2C|=3D)++))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)*+)\x01"
)
_TOKEN = re.compile(r"bearer +(?P<token>[-_.~+/A-Za-z0-9]+=*)", re.IGNORECASE)


class OAuthBearerServer:
    def __init__(self, validate: Callable[[str], Identity]) -> None:
        """`validate` raises AuthenticationFailed for an invalid token."""
        self._validate = validate
        self._refusal: str | None = None

    def step(self, message: bytes) -> Step:
        if self._refusal is not None:
            raise AuthenticationFailed(self._refusal)
        token, authorization_id = _token(message)
        try:
            identity = self._validate(token)
        except AuthenticationFailed:
            # JSON as in RFC 7628. The exact reason goes to our log, not to the peer.
            self._refusal = '{"status":"invalid_token"}'
            return Step(self._refusal.encode())
        if authorization_id and authorization_id != identity.name:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
        return Step(b"", identity)


class OAuthBearerClient:
    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        text = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
        self._first = f"n,,{_SEPARATOR}{text}{_SEPARATOR}".encode()

    def first(self) -> bytes:
        return self._first

    def step(self, challenge: bytes) -> bytes | None:
        return _ACKNOWLEDGEMENT if challenge else None


def _token(message: bytes) -> tuple[str, str]:
    try:
        match = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise ProtocolViolation("the first OAUTHBEARER message is malformed")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split(_SEPARATOR) if pair)
    found = _TOKEN.fullmatch(pairs.get("auth", ""))
    if found is None:
        raise ProtocolViolation("the first OAUTHBEARER message has no bearer token")
    name = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return found["token"], name
