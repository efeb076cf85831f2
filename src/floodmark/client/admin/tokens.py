"""Delegation tokens: made, renewed, ended and listed. Called by `admin.py`.

All go to the controller, so that a token that was made is found by the next request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.errors import raise_for_code
from floodmark.security.delegation_tokens import password_of
from floodmark.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from floodmark.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from floodmark.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from floodmark.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@dataclass(frozen=True, slots=True)
class TokenDescription:
    """Principals are written as `User:alice`, times are milliseconds since 1970."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """For a login by SCRAM, with `token_id` as the name."""
        return password_of(self.hmac)


async def create(
    cluster: Cluster, owner: str | None, renewers: Sequence[str], max_lifetime_ms: int
) -> TokenDescription:
    kind, name = (None, None) if owner is None else _principal(owner)
    message = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, renewers)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    response: CreateDelegationTokenResponse = await _ask(cluster, message)
    made_for = f"{response.principal_type}:{response.principal_name}"
    requester = response.token_requester_principal_name
    return TokenDescription(
        response.token_id,
        bytes(response.hmac),
        made_for,
        f"{response.token_requester_principal_type}:{requester}" if requester else made_for,
        tuple(renewers),
        response.issue_timestamp_ms,
        response.expiry_timestamp_ms,
        response.max_timestamp_ms,
    )


async def renew(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    message = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response: RenewDelegationTokenResponse = await _ask(cluster, message)
    return response.expiry_timestamp_ms


async def expire(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    message = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response: ExpireDelegationTokenResponse = await _ask(cluster, message)
    return response.expiry_timestamp_ms


async def describe(cluster: Cluster, owners: Sequence[str] | None) -> list[TokenDescription]:
    named = None
    if owners is not None:
        named = [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, owners)
        ]
    response: DescribeDelegationTokenResponse = await _ask(
        cluster, DescribeDelegationTokenRequest(owners=named)
    )
    return [
        TokenDescription(
            token.token_id,
            bytes(token.hmac),
            f"{token.principal_type}:{token.principal_name}",
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            tuple(f"{one.principal_type}:{one.principal_name}" for one in token.renewers),
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
        )
        for token in response.tokens
    ]


async def _ask(cluster: Cluster, message: Any) -> Any:
    async def attempt() -> Any:
        connection = await cluster.controller_connection()
        response = await connection.request(message)
        raise_for_code(response.error_code, None)
        return response

    return await cluster.retry(attempt)


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is not a principal such as User:alice")
    return kind, name
