"""A listener's SASL mechanisms, and the state machine for one authentication. In `Services`.

Reads the current settings and users for each client, so changes apply immediately.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.quota_nodes import user_of
from floodmark.security.errors import AuthenticationFailed, SecurityError
from floodmark.security.jaas import JaasEntry, parse_jaas
from floodmark.security.oauthbearer import OAuthBearerServer
from floodmark.security.plain import PlainServer
from floodmark.security.pretended_users import KnownUsers
from floodmark.security.sasl import (
    OAUTHBEARER,
    PLAIN,
    SCRAM_HASHES,
    Identity,
    ServerMechanism,
)
from floodmark.security.scram import Lookup, ScramServer
from floodmark.security.tokens import (
    TokenRules,
    UnknownKey,
    identity_of,
    signed_claims,
    unsecured_claims,
)

NONCE_BYTES = 24


class DelegationTokens(Protocol):
    """What SCRAM needs from delegation tokens."""

    def lookup(self, mechanism: str, token_id: str) -> Lookup:
        """The credential derived from a token's secret, and its owner."""


class PublishedKeys(Protocol):
    """The keys of a token issuer."""

    @property
    def key_set(self) -> Any:
        """joserfc's KeySet, or None as long as they could not be read."""

    def refresh_soon(self) -> None:
        """Reads them again, unless that was just done."""


class Authenticator:
    def __init__(
        self,
        metadata: MetadataCache,
        clock: Clock,
        find_keys: Callable[[str], PublishedKeys | None],
        delegation_tokens: DelegationTokens,
    ) -> None:
        """`find_keys` returns the keys published under a URL, or None."""
        self._metadata = metadata
        self._clock = clock
        self._find_keys = find_keys
        self._delegation_tokens = delegation_tokens
        # Seeds the salts of unknown names if there are no users.
        self._secret = secrets.token_bytes(32)
        # The stored credentials of all users by mechanism, and the settings they were read from.
        self._users: dict[str, KnownUsers] = {}
        self._users_from: object = None

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        return self._metadata.config.sasl_mechanisms(listener)

    def begin(self, listener: str, mechanism: str) -> ServerMechanism:
        """A state machine for one exchange. Raises SecurityError if a setting is missing."""
        if mechanism == PLAIN:
            return PlainServer(_jaas(self._metadata.config, listener, PLAIN).users)
        if mechanism == OAUTHBEARER:
            return OAuthBearerServer(partial(self._validate, listener))
        return ScramServer(
            SCRAM_HASHES[mechanism],
            partial(self._find_scram, mechanism),
            secrets.token_urlsafe(NONCE_BYTES),
        )

    def max_session_ms(self, listener: str, mechanism: str) -> int:
        """Returns 0 for sessions that end only with the connection."""
        value = self._metadata.config.for_mechanism(
            listener, mechanism, "connections.max.reauth.ms"
        )
        return value if isinstance(value, int) else 0

    @property
    def failure_delay_ms(self) -> int:
        return self._metadata.config.get_int("connection.failed.authentication.delay.ms")

    def _find_scram(self, mechanism: str, name: str, is_token: bool) -> Lookup:
        if is_token:
            return self._delegation_tokens.lookup(mechanism, name)
        users = self._known_users(mechanism)
        return Lookup(users.find(name), Identity(name), users.pretence(name))

    def _known_users(self, mechanism: str) -> KnownUsers:
        """Looked for again when settings have changed."""
        configs = self._metadata.image.configs
        if self._users_from is not configs:
            self._users, self._users_from = {}, configs
        if mechanism not in self._users:
            stored = {
                name: config[mechanism]
                for resource, config in configs.items()
                if mechanism in config and (name := user_of(resource)) is not None
            }
            self._users[mechanism] = KnownUsers(stored, self._secret)
        return self._users[mechanism]

    def _validate(self, listener: str, token: str) -> Identity:
        config = self._metadata.config

        def setting(name: str) -> Any:
            return config.for_mechanism(listener, OAUTHBEARER, name)

        url = setting("sasl.oauthbearer.jwks.endpoint.url")
        if url:
            keys = self._find_keys(url)
            if keys is None or keys.key_set is None:
                raise AuthenticationFailed("the token issuer's keys are not available yet")
            claims = _signed_claims(token, keys)
        elif setting("floodmark.sasl.oauthbearer.unsecured.tokens"):
            claims = unsecured_claims(token)
        else:
            raise AuthenticationFailed("this listener cannot validate tokens")
        rules = TokenRules(
            setting("sasl.oauthbearer.sub.claim.name"),
            setting("sasl.oauthbearer.expected.audience"),
            setting("sasl.oauthbearer.expected.issuer"),
            setting("sasl.oauthbearer.clock.skew.seconds") * 1000,
        )
        return identity_of(claims, rules, self._clock.now_ms())


def _signed_claims(token: str, keys: PublishedKeys) -> Mapping[str, Any]:
    try:
        return signed_claims(token, keys.key_set)
    except UnknownKey:
        keys.refresh_soon()
        raise


def check_listener(config: BrokerConfig, listener: str, mechanism: str) -> None:
    """Raises SecurityError at the start if no client could ever authenticate."""
    if mechanism == PLAIN:
        _jaas(config, listener, PLAIN)
    if mechanism != OAUTHBEARER:
        return
    if config.for_mechanism(listener, mechanism, "sasl.oauthbearer.jwks.endpoint.url"):
        try:
            import joserfc  # noqa: F401 - only whether it is there
        except ImportError:
            raise SecurityError(
                "OAUTHBEARER needs a token library that is not installed",
                "pip install 'floodmark[security]'",
            ) from None
    elif not config.get_bool("floodmark.sasl.oauthbearer.unsecured.tokens"):
        raise SecurityError(
            "OAUTHBEARER has no keys to validate tokens",
            "Set sasl.oauthbearer.jwks.endpoint.url, or for a test "
            "floodmark.sasl.oauthbearer.unsecured.tokens=true",
        )


def _jaas(config: BrokerConfig, listener: str, mechanism: str) -> JaasEntry:
    setting = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.jaas_of(listener, mechanism)
    if not text:
        raise SecurityError(
            f"{mechanism} on listener {listener} needs {setting}",
            'For example: ...PlainLoginModule required user_alice="her password";',
        )
    return parse_jaas(text, setting)
