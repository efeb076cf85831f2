"""The authorizer's settings: what is supported, and what it means."""

from __future__ import annotations

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's own authorizers, which decide alike. Others are Java classes that cannot run here."""


def check_authorizer(config: BrokerConfig) -> None:
    """Raises ConfigError if the settings ask for an unsupported authorizer."""
    name = config.get_str("authorizer.class.name")
    if name and name not in AUTHORIZERS:
        raise ConfigError(
            f"authorizer.class.name is {name}, a Java class that cannot run here",
            name="authorizer.class.name",
            hint=f"Use {AUTHORIZERS[0]}, which decides by ACLs",
        )
    super_users(config)


def super_users(config: BrokerConfig) -> frozenset[str]:
    """`super.users`: principals such as `User:admin`, separated by semicolons."""
    users = frozenset(
        user.strip() for user in config.get_str("super.users").split(";") if user.strip()
    )
    for user in users:
        if ":" not in user:
            raise ConfigError(
                f"super.users names {user}, which is not a principal",
                name="super.users",
                hint=f"Use User:{user}; separate several with semicolons",
            )
    return users
