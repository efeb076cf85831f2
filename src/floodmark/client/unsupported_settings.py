"""Client settings that we must refuse, because ignoring them would break a promise: a connection
without the encryption that was asked for, or records in other partitions than configured. PURE.

Asked by `settings.py` for every set of properties; the CLI and pipelines show what it raises.
Settings that only tune are no matter for this module: ignoring those does no harm.
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
"""Kafka's own classes for tokens, which this client does without."""

_ONLY_TUNING = (
    *("ssl.protocol", "ssl.provider", "ssl.keymanager.", "ssl.trustmanager.", "ssl.secure.random."),
    *("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.clock.", "sasl.oauthbearer.jwks."),
    *("sasl.oauthbearer.scope.claim.", "sasl.oauthbearer.sub.claim.", "sasl.oauthbearer.header."),
)
"""Beginnings of names that choose among Java's libraries, or tune what works differently here."""

HONOURED = frozenset(
    {"enable.ssl.certificate.verification", "security.protocol", *_JAVA_CLASSES[3:]}
)
"""Accepted names that are no fields: only one value of each passes, and asks for what is so."""

_NO_JAVA = "this client is Python and cannot load Java classes"
_OTHERS: Mapping[str, tuple[str, str, str]] = {
    # name: the value that means nothing special, why others are refused, and what to do
    "group.protocol": (
        "classic",
        "this consumer joins groups by the classic protocol only",
        "leave it out, or use group.protocol=classic",
    ),
    "partitioner.class": (
        "",
        f"{_NO_JAVA}; records would go to other partitions than you expect",
        "leave it out for Kafka's default, or give each send() its partition",
    ),
    "interceptor.classes": ("", _NO_JAVA, "leave it out, and wrap the client in Python instead"),
    "transaction.two.phase.commit.enable": (
        "false",
        "this client takes no part in two-phase commits (KIP-939)",
        "leave it out",
    ),
}


class SettingsError(ValueError):
    """A client setting has a value that cannot be used; the text says what is allowed."""


class UnsupportedSetting(SettingsError):
    """A setting asks for something that this client cannot do, so it refuses to start.

    `what`, `why` and `hint` are the parts of the text, for those who print them apart.
    """

    def __init__(self, what: str, *, why: str, hint: str) -> None:
        super().__init__(f"{what}: {why}. To go on, {hint}")
        self.what = what
        self.why = why
        self.hint = hint


def refuse_unsupported(properties: Mapping[str, str]) -> None:
    """Raise UnsupportedSetting for the first of these properties that cannot be honoured.

    Settings of TLS and SASL without a `security.protocol` that uses them are refused, too: who
    gives them does not mean to send everything in the clear. An explicit `PLAINTEXT` makes them
    harmless, as in Kafka.
    """
    given = {_dotted(name): text.strip() for name, text in properties.items()}
    _refuse_security(given)
    for name, (harmless, why, hint) in _OTHERS.items():
        text = given.get(name, harmless)
        if text and text.lower() != harmless:
            raise UnsupportedSetting(f"{name}={text} is not supported", why=why, hint=hint)


def refuse_unknown_security(unknown: Iterable[str]) -> None:
    """Of names that this client does not know, those that may be meant to protect."""
    for name in unknown:
        dotted = _dotted(name)
        if dotted.startswith(_SECURITY_PREFIXES) and not dotted.startswith(_ONLY_TUNING):
            raise UnsupportedSetting(
                f"{name} is not supported",
                why="this client does not know it, and it may be meant to protect something",
                hint="leave it out, if the connection is safe enough without",
            )


def _refuse_security(given: Mapping[str, str]) -> None:
    protocol = given.get("security.protocol", "").upper()
    if protocol == PLAINTEXT:
        return
    for name, text in given.items():
        if not text or not name.startswith(_SECURITY_PREFIXES) or name == "security.protocol":
            continue
        # Never its value, which may be a password.
        if not protocol:
            raise UnsupportedSetting(
                f"{name} is given without security.protocol",
                why="the default is PLAINTEXT, and everything would be sent in the clear",
                hint="set security.protocol to SSL, SASL_SSL or SASL_PLAINTEXT; or to PLAINTEXT if "
                "that is meant",
            )
        if name in _JAVA_CLASSES and not text.startswith(_BUILT_IN):
            raise UnsupportedSetting(f"{name} is not supported", why=_NO_JAVA, hint="leave it out")
        if name == "enable.ssl.certificate.verification" and text.lower() != "true":
            raise UnsupportedSetting(
                f"{name}={text} is not supported",
                why="an unverified certificate protects from nobody",
                hint="name the authority in ssl.truststore.certificates or ssl.ca.location",
            )


def _dotted(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")
