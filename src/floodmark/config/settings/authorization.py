"""Settings of the authorizer and of delegation tokens."""

from __future__ import annotations

from floodmark.config.setting import LOW, MEDIUM, Setting
from floodmark.config.validators import at_least
from floodmark.config.values import ValueType

BOOLEAN, LONG, STRING = ValueType.BOOLEAN, ValueType.LONG, ValueType.STRING
PASSWORD = ValueType.PASSWORD

AUTHORIZATION_SETTINGS = (
    Setting(
        "authorizer.class.name",
        STRING,
        "",
        LOW,
        "The authorizer; any of the names of Kafka's own authorizers turns access control on.",
    ),
    Setting(
        "super.users",
        STRING,
        "",
        MEDIUM,
        "Principals that may do everything, such as User:admin;User:broker.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        MEDIUM,
        "Whether everybody may use resources that no ACL mentions.",
    ),
    Setting(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        MEDIUM,
        "The secret for creating delegation tokens, the same on all brokers. Without it, tokens "
        "are disabled.",
    ),
    Setting(
        "delegation.token.max.lifetime.ms",
        LONG,
        604800000,
        MEDIUM,
        "The age beyond which a token can no longer be renewed.",
        at_least(1),
    ),
    Setting(
        "delegation.token.expiry.time.ms",
        LONG,
        86400000,
        MEDIUM,
        "How long a token is valid before it must be renewed.",
        at_least(1),
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        LOW,
        "How often to remove expired tokens.",
        at_least(1),
    ),
)
