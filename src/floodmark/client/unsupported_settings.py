"""Client settings that we refuse because ignoring them would break a promise. PURE.

For example, a connection would lack the requested encryption, or records would go to other
partitions than configured.

`settings.py` checks all properties with it. The CLI and pipelines show the errors. Settings that
only tune performance are safe to ignore and not covered here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PLAINTEXT = "PLAINTEXT"

_SECURITY_PREFIXES = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.")
_JAVA_CLASSES = (
    *("sasl.client.callback.handler.class", "sasl.login.class", "security.providers"),
    *("sasl.login.callback.handler.class", "ssl.engine.factory.class"),
    *("sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class"),
)
_BUILT_IN = "org.apache.kafka.common.security.oauthbearer."
"""Kafka's own token classes, which this client does not need."""

_ONLY_TUNING = (
    *("ssl.protocol", "ssl.provider", "ssl.keymanager.", "ssl.trustmanager.", "ssl.secure.random."),
    *("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.clock.", "sasl.oauthbearer.jwks."),
    *("sasl.oauthbearer.scope.claim.", "sasl.oauthbearer.sub.claim.", "sasl.oauthbearer.header."),
)
"""Prefixes of names that choose Java libraries, or tune what works differently here."""

HONOURED = frozenset(
    {"enable.ssl.certificate.verification", "security.protocol", *_JAVA_CLASSES[3:]}
)
"""Accepted names without a field: only the value that matches our behaviour passes."""

_NO_JAVA = "this client is Python and cannot load Java classes"
_OTHERS: Mapping[str, tuple[str, str, str]] = {
    # name: the accepted value, why others are refused, and what to do
    "group.protocol": (
        "classic",
        "this consumer supports only the classic group protocol",
        "remove it, or use group.protocol=classic",
    ),
    "partitioner.class": (
        "",
        f"{_NO_JAVA}; records would go to other partitions than you expect",
        "remove it for Kafka's default, or pass a partition to each send()",
    ),
    "interceptor.classes": ("", _NO_JAVA, "remove it, and wrap the client in Python instead"),
    "transaction.two.phase.commit.enable": (
        "false",
        "this client does not support two-phase commit (KIP-939)",
        "remove it",
    ),
}


class SettingsError(ValueError):
    """A client setting has an invalid value. The text says what is allowed."""


class UnsupportedSetting(SettingsError):
    """A setting asks for something this client cannot do, so it refuses to start.

    `what`, `why` and `hint` are the parts of the text, for callers that print them separately.
    """

    def __init__(self, what: str, *, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. To continue, {hint}")
        self.what = what
        self.why = why
        self.hint = hint


def refuse_unsupported(properties: Mapping[str, str]) -> None:
    """Raises UnsupportedSetting for the first property that cannot be honoured.

    Also refuses TLS and SASL settings without a `security.protocol` that uses them: the user does
    not expect plaintext. An explicit `PLAINTEXT` makes them harmless, as in Kafka.
    """
    given = {_dotted(name): text.strip() for name, text in properties.items()}
    _refuse_security(given)
    for name, (harmless, why, hint) in _OTHERS.items():
        text = given.get(name, harmless)
        if text and text.lower() != harmless:
            raise UnsupportedSetting(f"{name}={text} is not supported", why=why, hint=hint)


def refuse_unknown_security(unknown: Iterable[str]) -> None:
    """Refuses unknown names that may be security settings."""
    for name in unknown:
        dotted = _dotted(name)
        if dotted.startswith(_SECURITY_PREFIXES) and not dotted.startswith(_ONLY_TUNING):
            raise UnsupportedSetting(
                f"{name} is not supported",
                why="this client does not know it, and it may be a security setting",
                hint="remove it if the connection is secure enough without it",
            )


def _refuse_security(given: Mapping[str, str]) -> None:
    protocol = given.get("security.protocol", "").upper()
    if protocol == PLAINTEXT:
        return
    for name, text in given.items():
        if not text or not name.startswith(_SECURITY_PREFIXES) or name == "security.protocol":
            continue
        # Never show the value, which may be a password.
        if not protocol:
            raise UnsupportedSetting(
                f"{name} is set without security.protocol",
                why="the default is PLAINTEXT, and everything would be sent in the clear",
                hint="set security.protocol to SSL, SASL_SSL or SASL_PLAINTEXT; or to PLAINTEXT if "
                "that is intended",
            )
        if name in _JAVA_CLASSES and not text.startswith(_BUILT_IN):
            raise UnsupportedSetting(f"{name} is not supported", why=_NO_JAVA, hint="remove it")
        if name == "enable.ssl.certificate.verification" and text.lower() != "true":
            raise UnsupportedSetting(
                f"{name}={text} is not supported",
                why="an unverified certificate gives no protection",
                hint="name the authority in ssl.truststore.certificates or ssl.ca.location",
            )


def _dotted(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")
