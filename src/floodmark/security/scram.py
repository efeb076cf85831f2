"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), both sides. PURE.

A client may authenticate with a delegation token instead of a password: it then adds
`tokenauth=true` to its first message (KIP-48), and its name is the token's id.

The server answers an unknown name like one that exists (`pretended_users.py`) and refuses the proof
afterwards.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import NamedTuple

from floodmark.security.errors import AuthenticationFailed, ProtocolViolation
from floodmark.security.pretended_users import Pretence
from floodmark.security.sasl import Identity, Step
from floodmark.security.scram_credentials import (
    MIN_ITERATIONS,
    ScramCredential,
    client_key,
    salted_password,
    server_key,
)

# Repeats are possessive (`++`, `*+`): otherwise `re` keeps some hundred bytes for each of them to
# backtrack, and an unauthenticated peer may send half a megabyte.
_NAME = r"(?:[^,=]|=2C|=3D)++"
_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>[!-+\--~]+)(?P<extensions>(?:,[A-Za-z]+=[^,]*)*+))"
)
_SERVER_FIRST = re.compile(r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[^,]+),i=(?P<iterations>\d{1,9}).*")
_FINAL = re.compile(
    r"(?P<bare>c=(?P<binding>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,(?!p=)[A-Za-z]+=[^,]*)*+)"
    r",p=(?P<proof>[^,]+)"
)
MAX_MESSAGE_BYTES = 16 * 1024
"""Of a client. The first is kept, in pieces, until the second one comes, and peers that have not
authenticated may send half a megabyte."""

MAX_CLIENT_ITERATIONS = 1_000_000
"""A server must not make its clients compute for minutes."""


class Lookup(NamedTuple):
    """The user that a first message names. Without a credential the name is unknown, and `pretence`
    provides the response."""

    credential: ScramCredential | None
    identity: Identity
    pretence: Pretence


class ScramServer:
    def __init__(
        self,
        hash_name: str,
        find: Callable[[str, bool], Lookup],
        nonce: str,
    ) -> None:
        """`find` takes a name, and whether it is a delegation token's id. `nonce` is random."""
        self._hash = hash_name
        self._find = find
        self._nonce = nonce
        self._exchange: _Exchange | None = None

    def step(self, message: bytes) -> Step:
        if len(message) > MAX_MESSAGE_BYTES:
            raise ProtocolViolation(f"a SCRAM message of {len(message)} bytes")
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return self._first(message)
        return self._final(exchange, message)

    def _first(self, message: bytes) -> Step:
        match = _FIRST.fullmatch(_text(message))
        if match is None:
            raise ProtocolViolation("the first SCRAM message is malformed")
        name = _unescaped(match["name"])
        if match["authorization"] and _unescaped(match["authorization"]) != name:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        is_token = ",tokenauth=true" in match["extensions"].lower()
        found = self._find(name, is_token)
        credential = found.credential or found.pretence.credential(self._hash, name)
        nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        reply = f"r={nonce},s={salt},i={credential.iterations}"
        binding = base64.b64encode(match["gs2"].encode()).decode()
        self._exchange = _Exchange(
            credential,
            found.identity if found.credential is not None else None,
            nonce,
            binding,
            f"{match['bare']},{reply}",
        )
        return Step(reply.encode())

    def _final(self, exchange: _Exchange, message: bytes) -> Step:
        match = _FINAL.fullmatch(_text(message))
        if match is None:
            raise ProtocolViolation("the final SCRAM message is malformed")
        if match["nonce"] != exchange.nonce or match["binding"] != exchange.binding:
            raise ProtocolViolation("the final SCRAM message does not belong to this exchange")
        signed = f"{exchange.signed},{match['bare']}".encode()
        credential = exchange.credential
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        key = _xor(_decoded(match["proof"]), signature)
        is_proved = hmac.compare_digest(
            hashlib.new(self._hash, key).digest(), credential.stored_key
        )
        if exchange.identity is None or not is_proved:
            raise ProtocolViolation("invalid credentials")
        reply = base64.b64encode(hmac.digest(credential.server_key, signed, self._hash)).decode()
        return Step(f"v={reply}".encode(), exchange.identity)


class _Exchange(NamedTuple):
    """What the server remembers between the two messages of a client."""

    credential: ScramCredential
    identity: Identity | None
    nonce: str
    binding: str
    signed: str


class ScramClient:
    def __init__(
        self,
        hash_name: str,
        name: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
    ) -> None:
        self._hash = hash_name
        self._password = password
        self._nonce = nonce
        extension = ",tokenauth=true" if is_token else ""
        self._bare = f"n={_escaped(name)},r={nonce}{extension}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        if self._server_signature is None:
            return self._final(challenge)
        expected = b"v=" + base64.b64encode(self._server_signature)
        if not hmac.compare_digest(challenge, expected):
            raise AuthenticationFailed("the broker could not prove that it knows the password")
        return None

    def _final(self, challenge: bytes) -> bytes:
        match = _SERVER_FIRST.fullmatch(_text(challenge))
        if match is None or not match["nonce"].startswith(self._nonce):
            raise AuthenticationFailed("the broker's SCRAM message is malformed")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
            raise AuthenticationFailed(f"the broker asks for {iterations} SCRAM iterations")
        salted = salted_password(self._hash, self._password, _decoded(match["salt"]), iterations)
        final = f"c={base64.b64encode(b'n,,').decode()},r={match['nonce']}"
        signed = f"{self._bare},{match[0]},{final}".encode()
        key = client_key(self._hash, salted)
        signature = hmac.digest(hashlib.new(self._hash, key).digest(), signed, self._hash)
        self._server_signature = hmac.digest(server_key(self._hash, salted), signed, self._hash)
        return f"{final},p={base64.b64encode(_xor(key, signature)).decode()}".encode()


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ProtocolViolation("a SCRAM message is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise ProtocolViolation("a SCRAM message contains invalid base64") from None


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise ProtocolViolation("a SCRAM proof has the wrong length")
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
