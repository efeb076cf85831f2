"""The `ssl.*` settings of a listener or client, with Kafka's names. PURE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from floodmark.security.ciphers import TLS_1_2, TLS_1_3

NONE, REQUESTED, REQUIRED = "none", "requested", "required"
PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A key store or a trust store: a file, or the PEM text itself (KIP-651)."""

    type: str = JKS
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    # Two PEM files instead of one, as in librdkafka's settings.
    certificate_file: str | None = None
    key_file: str | None = None

    @property
    def is_given(self) -> bool:
        return bool(self.location or self.certificates or self.key or self.certificate_file)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    key_store: StoreSettings = StoreSettings()
    trust_store: StoreSettings = StoreSettings()
    client_auth: str = NONE
    enabled_protocols: tuple[str, ...] = (TLS_1_2, TLS_1_3)
    cipher_suites: tuple[str, ...] = ()
    checks_host_name: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The files it is read from, to detect changes."""
        named = (
            (store.location, store.certificate_file, store.key_file)
            for store in (self.key_store, self.trust_store)
        )
        return tuple(location for of_store in named for location in of_store if location)


Text = Callable[[str], str | None]


def tls_settings(text: Text, names: Callable[[str], tuple[str, ...]]) -> TlsSettings:
    """`text` and `names` look up a setting by Kafka's name."""
    algorithm = text("ssl.endpoint.identification.algorithm")
    return TlsSettings(
        key_store=StoreSettings(
            (text("ssl.keystore.type") or JKS).upper(),
            text("ssl.keystore.location"),
            text("ssl.keystore.password"),
            text("ssl.keystore.certificate.chain"),
            text("ssl.keystore.key"),
            text("ssl.key.password"),
        ),
        trust_store=StoreSettings(
            (text("ssl.truststore.type") or JKS).upper(),
            text("ssl.truststore.location"),
            text("ssl.truststore.password"),
            text("ssl.truststore.certificates"),
        ),
        client_auth=(text("ssl.client.auth") or NONE).lower(),
        enabled_protocols=names("ssl.enabled.protocols") or (TLS_1_2, TLS_1_3),
        cipher_suites=names("ssl.cipher.suites"),
        checks_host_name=algorithm is None or bool(algorithm.strip()),
    )
