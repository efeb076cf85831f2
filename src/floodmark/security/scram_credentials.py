"""The stored form of a SCRAM password, and Kafka's text for it. PURE.

    salt=...,stored_key=...,server_key=...,iterations=4096

is stored in `/config/users/NAME` under the mechanism's name. It does not reveal the password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from binascii import Error as Base64Error
from typing import NamedTuple

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"

    def text(self) -> str:
        return (
            f"salt={_encoded(self.salt)},stored_key={_encoded(self.stored_key)},"
            f"server_key={_encoded(self.server_key)},iterations={self.iterations}"
        )


def parse_credential(text: str) -> ScramCredential:
    """Raises ValueError if it is malformed."""
    parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    try:
        return ScramCredential(
            base64.b64decode(parts["salt"], validate=True),
            base64.b64decode(parts["stored_key"], validate=True),
            base64.b64decode(parts["server_key"], validate=True),
            int(parts["iterations"]),
        )
    except (KeyError, Base64Error, ValueError):
        raise ValueError("this is not a SCRAM credential") from None


def salted_password(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Like Kafka, uses the password as UTF-8 without normalization."""
    return hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def credential_of(hash_name: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    return ScramCredential(
        salt,
        hashlib.new(hash_name, client_key(hash_name, salted)).digest(),
        server_key(hash_name, salted),
        iterations,
    )


def client_key(hash_name: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", hash_name)


def server_key(hash_name: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", hash_name)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
