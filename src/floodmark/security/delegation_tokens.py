"""Delegation tokens (KIP-48, KIP-373): who may renew and end one, and when it ends. PURE.

A token stands for its owner: its bearer knows the secret, the HMAC of the token's id, and logs in
as the owner by SCRAM. `broker.token_requests` stores tokens on behalf of the handlers. Principals
are written as `User:alice`.
"""

from __future__ import annotations

import base64
import hmac
from typing import NamedTuple

HMAC_HASH = "sha512"
"""Kafka's HmacSHA512."""


_LAST_MS = 2**63 - 1
"""Times beyond do not fit into a response. A lifetime may be as long as the largest setting."""


class DelegationToken(NamedTuple):
    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    """The token cannot be renewed beyond this time."""
    expiry_ms: int

    def is_over(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expiry_ms < now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """These principals may describe it without any right."""
        return principal == self.requester or self.may_be_renewed_by(principal)


class Lifetimes(NamedTuple):
    """The lifetimes in the settings."""

    max_ms: int
    expiry_ms: int


class NotTheRenewer(Exception):
    """The principal is neither the owner of the token nor one of its renewers."""


class TokenIsOver(Exception):
    """The token has expired."""


def hmac_of(token_id: str, secret_key: str) -> bytes:
    """The secret of a token. All brokers with the same secret key compute the same."""
    return hmac.digest(secret_key.encode(), token_id.encode(), HMAC_HASH)


def password_of(token_hmac: bytes) -> str:
    """What a client sends as its SCRAM password."""
    return base64.b64encode(token_hmac).decode()


def issue(
    token_id: str,
    owner: str,
    requester: str,
    renewers: tuple[str, ...],
    max_lifetime_ms: int,
    lifetimes: Lifetimes,
    now_ms: int,
) -> DelegationToken:
    """`max_lifetime_ms` is the client's wish; 0 or less means the settings' lifetime."""
    wanted_ms = max_lifetime_ms if max_lifetime_ms > 0 else lifetimes.max_ms
    max_ms = min(now_ms + min(wanted_ms, lifetimes.max_ms), _LAST_MS)
    expiry_ms = min(max_ms, now_ms + lifetimes.expiry_ms)
    return DelegationToken(token_id, owner, requester, renewers, now_ms, max_ms, expiry_ms)


def renew(
    token: DelegationToken, principal: str, period_ms: int, lifetimes: Lifetimes, now_ms: int
) -> DelegationToken:
    """Raises NotTheRenewer or TokenIsOver. A negative period means the settings' period."""
    _check(token, principal)
    if token.is_over(now_ms):
        raise TokenIsOver
    if period_ms < 0:
        period_ms = lifetimes.expiry_ms
    return token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms))


def expire(
    token: DelegationToken, principal: str, period_ms: int, now_ms: int
) -> DelegationToken | None:
    """Returns None if the token ends at once, which is what a negative period means."""
    _check(token, principal)
    if period_ms < 0:
        return None
    if token.is_over(now_ms):
        raise TokenIsOver
    return token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms))


def _check(token: DelegationToken, principal: str) -> None:
    if not token.may_be_renewed_by(principal):
        raise NotTheRenewer
