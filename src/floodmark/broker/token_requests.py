"""Creates, renews and expires delegation tokens, and removes expired ones.

Created by `broker.broker`, called by the handlers through `apis.delegation_tokens`. Every broker
writes tokens to the store itself, as in Kafka; only the controller removes expired ones.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence

from floodmark.apis.delegation_tokens import TokenRefused, TokenWish
from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.broker.delegation_tokens import DelegationTokens
from floodmark.clock import Clock
from floodmark.metadata import paths, token_nodes
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import ImageChange
from floodmark.metadata.store import Create, Delete, NoNode, Operation, SetData, StoreError
from floodmark.security.delegation_tokens import (
    DelegationToken,
    Lifetimes,
    NotTheRenewer,
    TokenIsOver,
    expire,
    issue,
    renew,
)
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

MOST_TOKENS_OF_REQUESTER = 10_000
"""Every client that has logged in may create tokens, and all brokers keep them in memory."""

MOST_PRINCIPAL_LETTERS = 8_192
"""Of the principals of one token, together. A request could name megabytes of renewers."""


class TokenRequests:
    def __init__(
        self,
        tokens: DelegationTokens,
        metadata: MetadataCache,
        membership: ClusterMembership,
        clock: Clock,
    ) -> None:
        self._tokens = tokens
        self._metadata = metadata
        self._membership = membership
        self._clock = clock
        self._chance = random.SystemRandom()
        self._expiry: asyncio.Task[None] | None = None

    @property
    def is_enabled(self) -> bool:
        return self._tokens.is_enabled

    def all(self) -> Sequence[DelegationToken]:
        return list(self._metadata.image.tokens.values())

    def hmac_of(self, token: DelegationToken) -> bytes:
        return self._tokens.hmac_of(token)

    async def create(self, wish: TokenWish) -> DelegationToken:
        self._check_size(wish)
        token = issue(
            paths.encode_id(paths.random_id(self._chance.getrandbits)),
            wish.owner,
            wish.requester,
            wish.renewers,
            wish.max_lifetime_ms,
            self._lifetimes,
            self._clock.now_ms(),
        )
        path = token_nodes.token_path(token.token_id)
        await self._write(Create(path, token_nodes.encode_token(token)), token.token_id, token)
        logger.info("%s created a delegation token for %s", token.requester, token.owner)
        return token

    async def renew(self, token_hmac: bytes, principal: str, period_ms: int) -> int:
        """Returns the new expiry time."""
        token = self._find(token_hmac)
        try:
            renewed = renew(token, principal, period_ms, self._lifetimes, self._clock.now_ms())
        except (NotTheRenewer, TokenIsOver) as problem:
            raise _refused(problem) from problem
        await self._change(renewed)
        return renewed.expiry_ms

    async def expire(self, token_hmac: bytes, principal: str, period_ms: int) -> int:
        """Returns the new expiry time."""
        token, now_ms = self._find(token_hmac), self._clock.now_ms()
        try:
            shortened = expire(token, principal, period_ms, now_ms)
        except (NotTheRenewer, TokenIsOver) as problem:
            raise _refused(problem) from problem
        if shortened is None:
            await self._remove(token)
            return now_ms
        await self._change(shortened)
        return shortened.expiry_ms

    # -- the ends of tokens ---------------------------------------------------------------------

    def start(self) -> None:
        if self.is_enabled:
            self._expiry = asyncio.create_task(self._remove_expired(), name="token-expiry")

    async def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.gather(self._expiry, return_exceptions=True)

    async def _remove_expired(self) -> None:
        config = self._metadata.config
        interval_s = config.get_int("delegation.token.expiry.check.interval.ms") / 1000
        while True:
            await asyncio.sleep(interval_s)
            if not self._membership.controller.is_active:
                continue
            now_ms = self._clock.now_ms()
            for token in self.all():
                if token.is_over(now_ms):
                    await self._remove_if_possible(token)

    async def _remove_if_possible(self, token: DelegationToken) -> None:
        try:
            await self._remove(token)
        except TokenRefused as problem:
            logger.warning("an expired token of %s is not removed yet: %s", token.owner, problem)
        else:
            logger.info("a delegation token of %s has expired", token.owner)

    def _check_size(self, wish: TokenWish) -> None:
        letters = sum(map(len, (wish.owner, wish.requester, *wish.renewers)))
        count = sum(token.requester == wish.requester for token in self.all())
        if letters > MOST_PRINCIPAL_LETTERS or count >= MOST_TOKENS_OF_REQUESTER:
            raise TokenRefused(ErrorCode.POLICY_VIOLATION)

    # -- writing --------------------------------------------------------------------------------

    def _find(self, token_hmac: bytes) -> DelegationToken:
        token = self._tokens.find(token_hmac)
        if token is None:
            raise TokenRefused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    async def _change(self, token: DelegationToken) -> None:
        path = token_nodes.token_path(token.token_id)
        await self._write(SetData(path, token_nodes.encode_token(token)), token.token_id, token)

    async def _remove(self, token: DelegationToken) -> None:
        await self._write(Delete(token_nodes.token_path(token.token_id)), token.token_id, None)

    async def _write(
        self, operation: Operation, token_id: str, token: DelegationToken | None
    ) -> None:
        try:
            await self._membership.write_token(operation, ImageChange(tokens={token_id: token}))
        except NoNode:
            # Another broker was faster.
            raise TokenRefused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND) from None
        except StoreError as problem:
            logger.warning("a delegation token could not be stored: %s", problem)
            raise TokenRefused(ErrorCode.KAFKA_STORAGE_ERROR) from problem

    @property
    def _lifetimes(self) -> Lifetimes:
        config = self._metadata.config
        return Lifetimes(
            config.get_int("delegation.token.max.lifetime.ms"),
            config.get_int("delegation.token.expiry.time.ms"),
        )


def _refused(problem: NotTheRenewer | TokenIsOver) -> TokenRefused:
    if isinstance(problem, NotTheRenewer):
        return TokenRefused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return TokenRefused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
