"""Listeners with SASL: checks their settings at the start and fetches token keys.

Created by `broker.broker`. `apis.authenticator` handles the requests.
"""

from __future__ import annotations

from floodmark.apis.authenticator import Authenticator, check_listener
from floodmark.broker.delegation_tokens import DelegationTokens
from floodmark.broker.token_keys import TokenKeys
from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.metadata.cache import MetadataCache
from floodmark.security.errors import SecurityError
from floodmark.security.sasl import OAUTHBEARER


class SaslListeners:
    def __init__(
        self, metadata: MetadataCache, clock: Clock, delegation_tokens: DelegationTokens
    ) -> None:
        """Raises ConfigError if nobody could ever authenticate on a listener."""
        config = metadata.config
        self._keys: dict[str, TokenKeys] = {}
        for listener in config.listeners:
            if listener.security_protocol.startswith("SASL"):
                for mechanism in config.sasl_mechanisms(listener.name):
                    _check(config, listener.name, mechanism)
                    if mechanism == OAUTHBEARER:
                        self._add_keys(config, listener.name)
        self.authenticator = Authenticator(metadata, clock, self._find_keys, delegation_tokens)

    def start(self) -> None:
        for keys in self._keys.values():
            keys.start()

    async def close(self) -> None:
        for keys in self._keys.values():
            await keys.close()

    def _add_keys(self, config: BrokerConfig, listener: str) -> None:
        url = config.for_mechanism(listener, OAUTHBEARER, "sasl.oauthbearer.jwks.endpoint.url")
        if isinstance(url, str) and url:
            self._keys[url] = TokenKeys(
                url,
                refresh_ms=config.get_int("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
                backoff_ms=config.get_int("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
                max_backoff_ms=config.get_int(
                    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"
                ),
            )

    def _find_keys(self, url: str) -> TokenKeys | None:
        return self._keys.get(url)


def _check(config: BrokerConfig, listener: str, mechanism: str) -> None:
    try:
        check_listener(config, listener, mechanism)
    except SecurityError as problem:
        raise ConfigError(
            f"listener {listener}: {problem}",
            name="sasl.enabled.mechanisms",
            hint=problem.hint or None,
        ) from problem
