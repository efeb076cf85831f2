"""How this broker authenticates to other brokers: the inter-broker listener's settings.

Used by `broker.links`. As in Kafka, the listener's key store doubles as the client's, and the JAAS
config of `sasl.mechanism.inter.broker.protocol` holds the user name and password.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from floodmark.broker.tls_listeners import listener_settings
from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError

if TYPE_CHECKING:
    from floodmark.client.cluster.security import Security


def inter_broker_security(read_config: Callable[[], BrokerConfig]) -> Security | None:
    """Returns None for PLAINTEXT. Raises ConfigError if a setting is missing.

    `read_config` returns the newest settings: the key store may change while the broker runs.
    """
    config = read_config()
    protocol = config.inter_broker_protocol
    if protocol == "PLAINTEXT":
        return None
    from floodmark.client.cluster.security import Security
    from floodmark.client.security_settings import SecuritySettings
    from floodmark.client.unsupported_settings import SettingsError

    listener = config.inter_broker_listener_name
    settings = SecuritySettings(security_protocol=protocol)
    if settings.uses_sasl:
        mechanism = str(config.for_listener(listener, "sasl.mechanism.inter.broker.protocol"))
        url = config.for_mechanism(listener, mechanism, "sasl.oauthbearer.token.endpoint.url")
        settings = replace(
            settings,
            sasl_mechanism=mechanism,
            sasl_jaas_config=config.jaas_of(listener, mechanism),
            sasl_oauthbearer_token_endpoint_url=url if isinstance(url, str) else None,
        )
    try:
        settings.check_security()
    except SettingsError as problem:
        raise ConfigError(
            f"brokers cannot authenticate to each other on listener {listener}: {problem}",
            name="sasl.mechanism.inter.broker.protocol",
            hint="Set it, and listener.name.NAME.MECHANISM.sasl.jaas.config with username and "
            "password",
        ) from problem
    return Security(settings, tls=lambda: listener_settings(read_config(), listener))
