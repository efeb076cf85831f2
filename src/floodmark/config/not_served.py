"""Settings that ask for what this broker cannot do yet. Asked by `broker.main` before the start.

What would leave a door open that its owner has closed is refused. The rest is only named, because
the server.properties of a Kafka has to start as it is.
"""

from __future__ import annotations

from floodmark.config.broker_config import BrokerConfig, base_name
from floodmark.config.errors import ConfigError

_WITHOUT_EFFECT = ("delegation.token.", "sasl.", "ssl.", "zookeeper.")


def refuse_open_doors(config: BrokerConfig) -> None:
    """Raise ConfigError where encryption, authentication or access control is asked for."""
    for listener in config.listeners:
        if listener.security_protocol != "PLAINTEXT":
            raise ConfigError(
                f"listener {listener.name} asks for {listener.security_protocol}, which is not "
                "served yet: only PLAINTEXT is",
                name="listeners",
                hint="Use PLAINTEXT, on 127.0.0.1 or in a network where everybody is trusted",
            )
    if config.get_str("authorizer.class.name"):
        raise ConfigError(
            "authorizer.class.name asks for access control, which is not there yet",
            name="authorizer.class.name",
            hint="Take it out, and listen only where everybody may do everything",
        )


def without_effect(config: BrokerConfig) -> list[str]:
    """The names among the start properties that are known and do nothing yet."""
    return sorted(name for name in config.static if base_name(name).startswith(_WITHOUT_EFFECT))
