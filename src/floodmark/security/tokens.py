"""Validates JSON web tokens: their times, issuer, audience and claims. PURE.

joserfc checks signatures with the keys from `broker.token_keys`. An unsigned token is accepted only
if `floodmark.sasl.oauthbearer.unsecured.tokens` is set.
"""

from __future__ import annotations

import base64
import json
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, NamedTuple

from floodmark.security.errors import AuthenticationFailed
from floodmark.security.sasl import Identity

ALGORITHMS = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
]
"""Only those with a public key, because the keys are published."""

MAX_TOKEN_LENGTH = 64 * 1024


class UnknownKey(AuthenticationFailed):
    """The key may be newer than our copy of the issuer's keys."""


class TokenRules(NamedTuple):
    subject_claim: str = "sub"
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_ms: int = 30_000


def signed_claims(token: str, key_set: Any) -> Mapping[str, Any]:
    """The claims of a token signed by one of these keys (joserfc's `KeySet`)."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    try:
        return jwt.decode(_bounded(token), key_set, algorithms=ALGORITHMS).claims
    except (JoseError, TypeError, ValueError) as problem:
        # joserfc raises a TypeError for some headers, such as a `crit` that is no list.
        key_id = _json(token.partition(".")[0]).get("kid")
        if key_id is not None and all(key.kid != key_id for key in key_set.keys):
            raise UnknownKey("the token's key is not among those of its issuer") from None
        # Without the exception's text, which may quote the token.
        raise AuthenticationFailed(
            f"the token's signature is not valid ({type(problem).__name__})"
        ) from None


def unsecured_claims(token: str) -> Mapping[str, Any]:
    parts = _bounded(token).split(".")
    if len(parts) != 3 or parts[2]:
        raise AuthenticationFailed("this is not an unsigned token")
    header, claims = _json(parts[0]), _json(parts[1])
    if header.get("alg") != "none":
        raise AuthenticationFailed("this is not an unsigned token")
    return claims


def identity_of(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> Identity:
    """The identity in these claims.

    Raises AuthenticationFailed if they are not valid here or now.
    """
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise AuthenticationFailed("the token has no expiry")
    if expires_ms + rules.clock_skew_ms <= now_ms:
        raise AuthenticationFailed("the token has expired")
    for claim in ("nbf", "iat"):
        begins_ms = _time_ms(claims, claim)
        if begins_ms is not None and begins_ms - rules.clock_skew_ms > now_ms:
            raise AuthenticationFailed("the token is not valid yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise AuthenticationFailed("the token has another issuer")
    if rules.audiences and not set(_names(claims.get("aud"))) & set(rules.audiences):
        raise AuthenticationFailed("the token is for another audience")
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise AuthenticationFailed("the token has no subject")
    return Identity(subject, expires_ms)


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise AuthenticationFailed(f"the token's {name} is not a time")
    return int(value * 1000)


def _bounded(token: str) -> str:
    if len(token) > MAX_TOKEN_LENGTH:
        raise AuthenticationFailed("the token is too long")
    return token


def _json(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (Base64Error, ValueError, RecursionError):
        raise AuthenticationFailed("the token is malformed") from None
    if not isinstance(value, dict):
        raise AuthenticationFailed("the token is malformed")
    return value
