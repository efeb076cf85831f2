"""SASL PLAIN (RFC 4616): a plain user name and password. PURE."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from floodmark.security.errors import AuthenticationFailed
from floodmark.security.sasl import Identity, Step

_INVALID = "Authentication failed: Invalid username or password"


class PlainServer:
    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, message: bytes) -> Step:
        name, password = _credentials(message)
        known = self._passwords.get(name)
        # Always compared, so that timing does not reveal which names exist.
        is_equal = hmac.compare_digest(password.encode(), (known or "").encode())
        if known is None or not is_equal:
            raise AuthenticationFailed(_INVALID)
        return Step(b"", Identity(name))


class PlainClient:
    def __init__(self, name: str, password: str, authorization_id: str = "") -> None:
        self._message = "\0".join((authorization_id, name, password)).encode()

    def first(self) -> bytes:
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        return None


def _credentials(message: bytes) -> tuple[str, str]:
    try:
        parts = message.decode().split("\0")
    except UnicodeDecodeError:
        raise AuthenticationFailed("Invalid SASL/PLAIN response: it is not UTF-8") from None
    if len(parts) != 3:
        raise AuthenticationFailed(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        )
    authorization_id, name, password = parts
    if not name:
        raise AuthenticationFailed("Authentication failed: username not specified")
    if not password:
        raise AuthenticationFailed("Authentication failed: password not specified")
    if authorization_id and authorization_id != name:
        raise AuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )
    return name, password
