"""Shared by the four delegation token APIs: the token service, and who may use it.

`broker.token_requests` implements the service.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from floodmark.apis.context import RequestContext
from floodmark.apis.sasl_sessions import SaslSession
from floodmark.network.principal import ANONYMOUS, Principal
from floodmark.security.delegation_tokens import DelegationToken
from floodmark.wire.errors import ErrorCode

USER = "User"
FIRST_VERSION_WITH_REQUESTER = 3
NO_TIME_MS = -1


class TokenRefused(Exception):
    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.message)
        self.error_code = error_code


class TokenWish(NamedTuple):
    """A token that a client asks for. Principals are written as `User:alice`."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


class TokenService(Protocol):
    """Its methods raise TokenRefused. Times are in milliseconds since 1970."""

    @property
    def is_enabled(self) -> bool:
        """Whether delegation.token.secret.key is set."""

    def all(self) -> Sequence[DelegationToken]: ...
    def hmac_of(self, token: DelegationToken) -> bytes: ...
    async def create(self, wish: TokenWish) -> DelegationToken: ...
    async def renew(self, token_hmac: bytes, principal: str, period_ms: int) -> int: ...
    async def expire(self, token_hmac: bytes, principal: str, period_ms: int) -> int: ...


def requester_of(context: RequestContext) -> Principal:
    return context.peer.principal or ANONYMOUS


def check_allowed(context: RequestContext) -> None:
    """Raises TokenRefused for unauthenticated clients, and for clients that logged in with a token:
    a token must not create others that outlive it."""
    peer = context.peer
    session = peer.authentication
    is_by_token = (
        isinstance(session, SaslSession)
        and session.identity is not None
        and session.identity.is_by_token
    )
    is_stranger = peer.security_protocol == "PLAINTEXT" or (
        peer.security_protocol == "SSL" and requester_of(context) == ANONYMOUS
    )
    if is_by_token or is_stranger:
        raise TokenRefused(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def service_of(context: RequestContext) -> TokenService:
    """Raises TokenRefused if delegation tokens are off."""
    service = context.services.delegation_tokens
    if service is None or not service.is_enabled:
        raise TokenRefused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return service


async def changed_expiry(
    context: RequestContext, change: Callable[[TokenService, str], Awaitable[int]]
) -> tuple[ErrorCode, int]:
    """Renews or expires a token for the client. Returns the error and the new expiry time."""
    try:
        check_allowed(context)
        expiry_ms = await change(service_of(context), str(requester_of(context)))
    except TokenRefused as refused:
        return refused.error_code, NO_TIME_MS
    return ErrorCode.NONE, expiry_ms


def principal_of(text: str) -> Principal:
    kind, _, name = text.partition(":")
    return Principal(kind, name)
