"""Client settings for authentication and encryption. PURE.

Uses Kafka's names with underscores for dots, and accepts librdkafka's names for certificates and
passwords. All classes in `client.settings` include them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from floodmark.client.unsupported_settings import SettingsError, UnsupportedSetting
from floodmark.security.ciphers import TLS_1_2, TLS_1_3
from floodmark.security.errors import SecurityError
from floodmark.security.jaas import JaasEntry, parse_jaas
from floodmark.security.sasl import MECHANISMS, OAUTHBEARER
from floodmark.security.tls_settings import PEM, StoreSettings, TlsSettings

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TokenSource = Callable[[], str | Awaitable[str]]
_OFF = ("", "none")
_TOKEN_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    security_protocol: str = "PLAINTEXT"
    ssl_keystore_type: str = "JKS"
    ssl_keystore_location: str | None = None
    ssl_keystore_password: str | None = field(default=None, repr=False)
    ssl_keystore_key: str | None = field(default=None, repr=False)
    ssl_keystore_certificate_chain: str | None = field(default=None, repr=False)
    ssl_key_password: str | None = field(default=None, repr=False)
    ssl_truststore_type: str = "JKS"
    ssl_truststore_location: str | None = None
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_enabled_protocols: str = f"{TLS_1_2},{TLS_1_3}"
    ssl_cipher_suites: str = ""
    # librdkafka's names: PEM files.
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    sasl_mechanism: str = "GSSAPI"
    sasl_jaas_config: str | None = field(default=None, repr=False)
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    # A token, or a sync or async function that returns one per connection.
    sasl_oauthbearer_token: str | TokenSource | None = field(default=None, repr=False)
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    sasl_oauthbearer_client_credentials_client_secret: str | None = field(default=None, repr=False)
    sasl_oauthbearer_scope: str | None = None

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    def check_security(self) -> None:
        """Raises SettingsError if the settings are inconsistent."""
        object.__setattr__(self, "security_protocol", self.security_protocol.strip().upper())
        if self.security_protocol not in PROTOCOLS:
            raise SettingsError(
                f"security.protocol={self.security_protocol} is invalid: use one of "
                f"{', '.join(PROTOCOLS)}"
            )
        if not self.uses_sasl:
            return
        if self.sasl_mechanism not in MECHANISMS:
            raise UnsupportedSetting(
                f"security.protocol={self.security_protocol} with "
                f"sasl.mechanism={self.sasl_mechanism} is not supported",
                why="this client supports neither Kerberos nor Java's other mechanisms",
                hint=f"use one of {', '.join(MECHANISMS)}",
            )
        if self.sasl_mechanism == OAUTHBEARER:
            self._check_oauth()
        elif not self.login.name or not self.login.password:
            raise SettingsError(
                f"{self.sasl_mechanism} needs a user name and password: set sasl.jaas.config, or "
                "sasl.username and sasl.password"
            )

    def _check_oauth(self) -> None:
        if not (
            self.sasl_oauthbearer_token
            or self.sasl_oauthbearer_token_endpoint_url
            or self.login.unsecured_claims
        ):
            raise SettingsError(
                "OAUTHBEARER needs a token: set sasl.oauthbearer.token.endpoint.url to the URL of "
                "a token endpoint or of a file, or pass a token"
            )

    @property
    def login(self) -> Login:
        try:
            entry = parse_jaas(self.sasl_jaas_config) if self.sasl_jaas_config else _NO_JAAS
        except SecurityError as problem:
            raise SettingsError(f"{problem}. {problem.hint}") from problem
        options = entry.options
        claims = {
            name.partition("Claim_")[2]: value
            for name, value in options.items()
            if name.startswith("unsecuredLoginStringClaim_")
        }
        return Login(
            options.get("username") or self.sasl_username or "",
            options.get("password") or self.sasl_password or "",
            entry.module == _TOKEN_LOGIN and options.get("tokenauth", "").lower() == "true",
            options.get("clientId")
            or self.sasl_oauthbearer_client_credentials_client_id
            or options.get("client_id", ""),
            options.get("clientSecret")
            or self.sasl_oauthbearer_client_credentials_client_secret
            or "",
            options.get("scope") or self.sasl_oauthbearer_scope or "",
            claims,
        )

    @property
    def tls(self) -> TlsSettings:
        return TlsSettings(
            key_store=self._key_store(),
            trust_store=self._trust_store(),
            enabled_protocols=_names(self.ssl_enabled_protocols),
            cipher_suites=_names(self.ssl_cipher_suites),
            checks_host_name=(
                self.ssl_endpoint_identification_algorithm.strip().lower() not in _OFF
            ),
        )

    def _key_store(self) -> StoreSettings:
        if self.ssl_certificate_location:
            return StoreSettings(
                PEM,
                key_password=self.ssl_key_password,
                certificate_file=self.ssl_certificate_location,
                key_file=self.ssl_key_location or self.ssl_certificate_location,
            )
        return StoreSettings(
            self.ssl_keystore_type.upper(),
            self.ssl_keystore_location,
            self.ssl_keystore_password,
            self.ssl_keystore_certificate_chain,
            self.ssl_keystore_key,
            self.ssl_key_password,
        )

    def _trust_store(self) -> StoreSettings:
        if self.ssl_ca_location:
            return StoreSettings(PEM, self.ssl_ca_location)
        return StoreSettings(
            self.ssl_truststore_type.upper(),
            self.ssl_truststore_location,
            self.ssl_truststore_password,
            self.ssl_truststore_certificates,
        )


@dataclass(frozen=True, slots=True)
class Login:
    """The client's identity, from the JAAS config or from separate settings."""

    name: str
    password: str = field(repr=False)
    is_token: bool
    client_id: str
    client_secret: str = field(repr=False)
    scope: str
    unsecured_claims: Mapping[str, str]


_NO_JAAS = JaasEntry("", {})


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
