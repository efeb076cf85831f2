"""Client settings that we must refuse, because ignoring them would break a promise: a connection
without the encryption that was asked for, or records in other partitions than configured. PURE.

Asked by `settings.py` for every set of properties; the CLI and pipelines show what it raises.
Settings that only tune are no matter for this module: ignoring those does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping

PLAINTEXT = "PLAINTEXT"

_SECURITY_WHY = "this client speaks PLAINTEXT only and would send everything in the clear"
_SECURITY_HINT = (
    "use a PLAINTEXT listener in a trusted network, or a client with TLS and SASL such as "
    "confluent-kafka"
)
_SECURITY_PREFIXES = ("ssl.", "sasl.", "security.", "enable.ssl.", "enable.sasl.")

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

        >>> refuse_unsupported({"security.protocol": "SSL"})
        Traceback (most recent call last):
        UnsupportedSetting: security.protocol=SSL is not supported: this client speaks PLAINTEXT ...

    An explicit `security.protocol=PLAINTEXT` makes `ssl.*` and `sasl.*` harmless, as in Kafka.
    """
    given = {_dotted(name): text.strip() for name, text in properties.items()}
    _refuse_security(given)
    for name, (harmless, why, hint) in _OTHERS.items():
        text = given.get(name, harmless)
        if text and text.lower() != harmless:
            raise UnsupportedSetting(f"{name}={text} is not supported", why=why, hint=hint)


def _refuse_security(given: Mapping[str, str]) -> None:
    protocol = given.get("security.protocol", "")
    if protocol.upper() == PLAINTEXT:
        return
    if protocol:
        what = f"security.protocol={protocol} is not supported"
        raise UnsupportedSetting(what, why=_SECURITY_WHY, hint=_SECURITY_HINT)
    for name, text in given.items():
        if text and name.startswith(_SECURITY_PREFIXES):
            # Not its value, which may be a password.
            raise UnsupportedSetting(
                f"{name} is not supported",
                why=_SECURITY_WHY,
                hint=f"{_SECURITY_HINT}, or say security.protocol=PLAINTEXT if that is meant",
            )


def _dotted(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")
