"""Settings of SASL. Those that name Java classes do not exist here."""

from __future__ import annotations

from floodmark.config.setting import LOW, MEDIUM, PER_BROKER, Setting
from floodmark.config.validators import at_least
from floodmark.config.values import ValueType

BOOLEAN, INT, LONG = ValueType.BOOLEAN, ValueType.INT, ValueType.LONG
STRING, LIST, PASSWORD = ValueType.STRING, ValueType.LIST, ValueType.PASSWORD

SASL_SETTINGS = (
    Setting(
        "sasl.enabled.mechanisms",
        LIST,
        ("GSSAPI",),
        MEDIUM,
        "The SASL mechanisms that clients may use.",
        None,
        PER_BROKER,
    ),
    Setting(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        "GSSAPI",
        MEDIUM,
        "The SASL mechanism between brokers.",
        None,
        PER_BROKER,
    ),
    Setting(
        "sasl.jaas.config",
        PASSWORD,
        None,
        MEDIUM,
        "User names and passwords in Java's JAAS syntax, per listener and mechanism.",
        None,
        PER_BROKER,
    ),
    Setting(
        "sasl.server.max.receive.size",
        INT,
        524288,
        MEDIUM,
        "The largest message accepted before a client has authenticated.",
    ),
    Setting(
        "connections.max.reauth.ms",
        LONG,
        0,
        MEDIUM,
        "After how long a client must authenticate again; 0 for never.",
    ),
    Setting(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        LOW,
        "The token claim that holds the scope.",
    ),
    Setting(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        LOW,
        "The token claim that holds the subject.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        MEDIUM,
        "Where the keys that sign tokens are published.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3600000,
        LOW,
        "How often to refresh those keys.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        LOW,
        "How long to wait before the first retry after failing to read the keys.",
    ),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10000,
        LOW,
        "The maximum wait between two such retries.",
    ),
    Setting(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        MEDIUM,
        "Where this broker gets its own token for the other brokers.",
    ),
    Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        LOW,
        "How far the token issuer's clock may differ from ours.",
    ),
    Setting(
        "sasl.oauthbearer.expected.audience",
        LIST,
        (),
        LOW,
        "The accepted audiences. A token must name one of them.",
    ),
    Setting(
        "floodmark.sasl.oauthbearer.unsecured.tokens",
        BOOLEAN,
        False,
        LOW,
        "Whether to accept unsigned tokens, which anybody can create: for tests only.",
    ),
    Setting(
        "floodmark.authentication.timeout.ms",
        LONG,
        30000,
        LOW,
        "How long a client may take for the TLS handshake and authentication.",
        at_least(1000),
    ),
    Setting(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        LOW,
        "The issuer that a token must name.",
    ),
)
