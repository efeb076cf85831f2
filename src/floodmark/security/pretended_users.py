"""SCRAM's answers to unknown names, which must look like those to users. PURE.

The server sends salt and iterations before the client proves its password, so they must not reveal
which names exist. An unknown name gets the iterations of some user and a salt of the same kind.
Both are derived from stored secrets, so they survive restarts and are the same on all brokers.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import NamedTuple

from floodmark.security.scram_credentials import (
    MIN_ITERATIONS,
    ScramCredential,
    parse_credential,
)

_HASH = "sha512"
_DEFAULT_SALT_BYTES = 20
_JAVA_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Java's clients generate salts that are text."""


class Pretence(NamedTuple):
    secret: bytes
    iterations: int = MIN_ITERATIONS
    salt_bytes: int = _DEFAULT_SALT_BYTES
    is_text: bool = False

    def credential(self, hash_name: str, name: str) -> ScramCredential:
        """The credential of an unknown name; no proof matches it."""
        salt = _stretched(self.secret, f"salt {hash_name} {name}", self.salt_bytes)
        if self.is_text:
            salt = bytes(_JAVA_ALPHABET[byte % len(_JAVA_ALPHABET)] for byte in salt)
        nothing = bytes(hmac.new(b"", digestmod=hash_name).digest_size)
        return ScramCredential(salt, nothing, nothing, self.iterations)


class KnownUsers:
    """All users of a mechanism. Rebuilt when users change, so that logins take equally long."""

    def __init__(self, stored: Mapping[str, str], fallback: bytes) -> None:
        """`stored` has the texts of credentials; `fallback` is the secret if there are no users."""
        self._stored = stored
        self._names = sorted(stored)
        self._secret = fallback
        if self._names:
            # Changes only with the password of this one user.
            first = stored[self._names[0]].encode()
            self._secret = hmac.digest(first, b"unknown names", _HASH)

    def find(self, name: str) -> ScramCredential | None:
        try:
            return parse_credential(self._stored[name])
        except (KeyError, ValueError):
            return None

    def pretence(self, name: str) -> Pretence:
        if not self._names:
            return Pretence(self._secret)
        number = int.from_bytes(hmac.digest(self._secret, f"user {name}".encode(), _HASH)[:8])
        like = self.find(self._names[number % len(self._names)])
        if like is None:
            return Pretence(self._secret)
        is_text = all(byte in _JAVA_ALPHABET for byte in like.salt)
        return Pretence(self._secret, like.iterations, len(like.salt), is_text)


def _stretched(secret: bytes, text: str, size: int) -> bytes:
    blocks = [
        hmac.digest(secret, f"{number} {text}".encode(), _HASH) for number in range(size // 64 + 1)
    ]
    return b"".join(blocks)[:size]
