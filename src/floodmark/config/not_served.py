"""Settings that ask for what this broker cannot do yet. Asked by `broker.main` before the start.

What would leave a door open that its owner has closed is refused. The rest is only named, because
the server.properties of a Kafka has to start as it is.
"""

from __future__ import annotations

from floodmark.config.access_control import check_authorizer
from floodmark.config.broker_config import BrokerConfig, base_name
from floodmark.config.errors import ConfigError
from floodmark.config.settings.kraft import KRAFT_SETTINGS

WITHOUT_EFFECT = (
    # OpenSSL offers what ssl.enabled.protocols names.
    "ssl.protocol",
    # Nothing is decided by a token's scope, as in Kafka.
    "sasl.oauthbearer.scope.claim.name",
    # Until there are delegation tokens.
    "delegation.token.*",
    # Until clusters are complete.
    *("replica.socket.*", "num.replica.fetchers"),
    # Until somebody needs them.
    *("queued.max.request.bytes", "socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
    *("socket.connection.setup.*", "request.timeout.ms", "background.threads"),
    *("max.request.partition.size.limit", "log.preallocate", "cordoned.log.dirs"),
    *("log.dir.failure.timeout.ms", "log.cleaner.threads", "log.cleaner.io.buffer.size"),
    *("log.cleaner.io.buffer.load.factor", "transaction.two.phase.commit.enable"),
    *("telemetry.max.bytes", "metrics.*", "log.local.retention.*"),
)
"""Known settings that do nothing yet; `*` stands for the rest of a name. Those that tune what works
differently here are not among them: nobody misses anything without them."""

_JAVA_SECURITY = (
    "callback.handler.class",
    "principal.builder.class",
    "sasl.login.class",
    "security.providers",
    "ssl.engine.factory.class",
)
"""How a Kafka is told to run somebody's Java code to find out who a client is."""

_BUILT_IN = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""What Kafka brings along, and this broker does without being told."""

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_POLICIES = ("create.topic.policy.class.name", "alter.config.policy.class.name")


def refuse_open_doors(config: BrokerConfig) -> None:
    """Raise ConfigError where security is asked for that this broker cannot give."""
    for listener in config.listeners:
        if listener.security_protocol.startswith("SASL"):
            for mechanism in config.sasl_mechanisms(listener.name):
                _refuse_mechanism(listener.name, mechanism)
    for name, value in config.static.items():
        if name.endswith(_JAVA_SECURITY) and value and value not in _BUILT_IN:
            raise ConfigError(
                f"{name} asks for a Java class, which cannot be asked here who a client is",
                name=name,
                hint="Take it out, if the built-in mechanisms do",
            )
    check_authorizer(config)
    if config.get_bool("zookeeper.set.acl"):
        raise ConfigError(
            "zookeeper.set.acl asks for nodes that only this broker's user may write, which needs "
            "SASL with ZooKeeper: that is not there yet",
            name="zookeeper.set.acl",
            hint="Take it out, and keep ZooKeeper where nobody else can reach it",
        )
    if config.static.get("zookeeper.ssl.client.enable", "").lower() == "true":
        raise ConfigError(
            "zookeeper.ssl.client.enable asks for TLS to ZooKeeper, which is not there yet",
            name="zookeeper.ssl.client.enable",
            hint="Take it out, and reach ZooKeeper through a network where everybody is trusted",
        )
    for name in _POLICIES:
        if config.static.get(name):
            raise ConfigError(
                f"{name} asks for a policy in Java, which cannot be asked here",
                name=name,
                hint="Take it out, if everybody may do what it would have refused",
            )


def _refuse_mechanism(listener: str, mechanism: str) -> None:
    if mechanism in MECHANISMS:
        return
    raise ConfigError(
        f"listener {listener} asks for the SASL mechanism {mechanism}, which is not served"
        + (": Kerberos needs libraries that this broker does without" * (mechanism == "GSSAPI")),
        name="sasl.enabled.mechanisms",
        hint=f"Set sasl.enabled.mechanisms to one or more of {', '.join(MECHANISMS)}",
    )


def without_effect(config: BrokerConfig) -> list[str]:
    """The names among the start properties that are known and do nothing yet."""
    return sorted(name for name in config.static if _is_without_effect(base_name(name)))


def kraft_settings(config: BrokerConfig) -> list[str]:
    """What the start properties say to a KRaft controller, which does not exist here."""
    named = sorted(setting.name for setting in KRAFT_SETTINGS if setting.name in config.static)
    return [*named, *(f"the listener {text}" for text in config.ignored_listeners)]


def _is_without_effect(name: str) -> bool:
    return any(
        name.startswith(entry[:-1]) if entry.endswith("*") else name == entry
        for entry in WITHOUT_EFFECT
    )
