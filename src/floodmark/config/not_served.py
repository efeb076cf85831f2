"""Settings for features this broker does not support yet. Checked by `broker.main` at the start.

Settings whose absence would leave a security hole are refused. The others are only listed, because
a Kafka server.properties must start unchanged.
"""

from __future__ import annotations

from floodmark.config.access_control import check_authorizer
from floodmark.config.broker_config import BrokerConfig, base_name
from floodmark.config.errors import ConfigError
from floodmark.config.settings.kraft import KRAFT_SETTINGS

WITHOUT_EFFECT = (
    # OpenSSL offers the versions in ssl.enabled.protocols.
    "ssl.protocol",
    # As in Kafka, a token's scope has no effect.
    "sasl.oauthbearer.scope.claim.name",
    # A leader has one fetcher, whose sockets the system sizes.
    *("replica.socket.*", "num.replica.fetchers"),
    # Until somebody needs them.
    *("queued.max.request.bytes", "socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
    *("socket.connection.setup.*", "request.timeout.ms", "background.threads"),
    *("max.request.partition.size.limit", "log.preallocate", "cordoned.log.dirs"),
    *("log.dir.failure.timeout.ms", "log.cleaner.threads", "log.cleaner.io.buffer.size"),
    *("log.cleaner.io.buffer.load.factor", "transaction.two.phase.commit.enable"),
    *("telemetry.max.bytes", "metrics.*", "log.local.retention.*"),
)
"""Known settings without effect so far.

`*` stands for the rest of a name. Omits settings that only tune a mechanism Floodmark does not
have.
"""

_JAVA_SECURITY = (
    "callback.handler.class",
    "principal.builder.class",
    "sasl.login.class",
    "security.providers",
    "ssl.engine.factory.class",
)
"""Settings that make Kafka run custom Java code to authenticate clients."""

_BUILT_IN = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's built-in classes, whose job this broker does anyway."""

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_POLICIES = ("create.topic.policy.class.name", "alter.config.policy.class.name")


def refuse_open_doors(config: BrokerConfig) -> None:
    """Raises ConfigError for security settings that this broker cannot honour."""
    for listener in config.listeners:
        if listener.security_protocol.startswith("SASL"):
            for mechanism in config.sasl_mechanisms(listener.name):
                _refuse_mechanism(listener.name, mechanism)
    for name, value in config.static.items():
        if name.endswith(_JAVA_SECURITY) and value and value not in _BUILT_IN:
            raise ConfigError(
                f"{name} names a Java class, which cannot authenticate clients here",
                name=name,
                hint="Remove it, if the built-in mechanisms suffice",
            )
    check_authorizer(config)
    _check_zookeeper(config)
    for name in _POLICIES:
        if config.static.get(name):
            raise ConfigError(
                f"{name} names a Java policy, which cannot run here",
                name=name,
                hint="Remove it, if everybody may do what it would have refused",
            )


def _check_zookeeper(config: BrokerConfig) -> None:
    username, password = (
        config.get_optional_str(f"floodmark.zookeeper.digest.{part}")
        for part in ("username", "password")
    )
    if bool(username) != bool(password) or ":" in (username or ""):
        raise ConfigError(
            "ZooKeeper's digest authentication needs a name without colons and a password",
            name="floodmark.zookeeper.digest.username",
            hint="Set floodmark.zookeeper.digest.username and floodmark.zookeeper.digest.password",
        )
    has_tls = config.get_bool("zookeeper.ssl.client.enable")
    has_certificate = has_tls and config.get_optional_str("zookeeper.ssl.keystore.location")
    if config.get_bool("zookeeper.set.acl") and not (username or has_certificate):
        raise ConfigError(
            "zookeeper.set.acl asks for nodes that only the brokers may write, and ZooKeeper "
            "cannot tell who they are; SASL with ZooKeeper is not served",
            name="zookeeper.set.acl",
            hint="Set floodmark.zookeeper.digest.username and password, or use TLS with "
            "zookeeper.ssl.keystore.location",
        )
    for name in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if config.get_bool(name):
            raise ConfigError(
                f"{name} asks for a check of revoked certificates, which is not served",
                name=name,
                hint="Remove it, and use certificates that expire soon",
            )


def _refuse_mechanism(listener: str, mechanism: str) -> None:
    if mechanism in MECHANISMS:
        return
    raise ConfigError(
        f"listener {listener} asks for the SASL mechanism {mechanism}, which is not served"
        + (": Kerberos needs libraries that this broker lacks" * (mechanism == "GSSAPI")),
        name="sasl.enabled.mechanisms",
        hint=f"Set sasl.enabled.mechanisms to one or more of {', '.join(MECHANISMS)}",
    )


def without_effect(config: BrokerConfig) -> list[str]:
    """The start properties that are known but have no effect yet."""
    return sorted(name for name in config.static if _is_without_effect(base_name(name)))


def kraft_settings(config: BrokerConfig) -> list[str]:
    """The start properties for a KRaft controller, which does not exist here."""
    named = sorted(setting.name for setting in KRAFT_SETTINGS if setting.name in config.static)
    return [*named, *(f"the listener {text}" for text in config.ignored_listeners)]


def _is_without_effect(name: str) -> bool:
    return any(
        name.startswith(entry[:-1]) if entry.endswith("*") else name == entry
        for entry in WITHOUT_EFFECT
    )
