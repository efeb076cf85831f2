"""What `Broker(security=...)` brings along: certificates, a user, and tokens for OAUTHBEARER.

PUBLIC as `broker.security`. Everything is created for each broker, in a temporary folder. Needs
`floodmark[security]`.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from floodmark.clock import SystemClock
from floodmark.config.errors import ConfigError
from floodmark.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER = "admin"
ISSUER = "https://tokens.floodmark.test"
_JAVA_MODULES = "org.apache.kafka.common.security."


class Secured:
    """The secrets of one broker, and the settings by which clients use them.

    `user` and `password` work for PLAIN and both kinds of SCRAM, `token` makes tokens.
    """

    def __init__(self, protocol: str) -> None:
        if protocol not in PROTOCOLS:
            raise ConfigError(f"security={protocol!r} is not possible: use {', '.join(PROTOCOLS)}")
        from floodmark.testing.authority import Authority, TokenIssuer

        self.protocol = protocol
        self.user = USER
        self.password = secrets.token_urlsafe(12)
        self.folder = Path(tempfile.mkdtemp(prefix="floodmark-security-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, True)
        self._authority = Authority(self.folder)
        self._issuer = TokenIssuer(self.folder, ISSUER)

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority, in PEM: what clients must trust."""
        return self._authority.ca_file

    def client_certificate(self, name: str) -> Path:
        """A PEM file with key and certificate of a client: its principal is `User:CN=name`."""
        return self._authority.client(name)

    def token(self, name: str = USER, *, expires_in_s: float = 3600, **claims: Any) -> str:
        """A signed token for OAUTHBEARER. One that has expired has a negative `expires_in_s`."""
        now = SystemClock().now_ms() // 1000
        times = {"iat": min(now, int(now + expires_in_s) - 1), "exp": int(now + expires_in_s)}
        return self._issuer.sign({"sub": name, "iss": ISSUER, **times, **claims})

    def token_url(self, name: str = USER, **given: Any) -> str:
        """Such a token in a file: for `sasl.oauthbearer.token.endpoint.url`."""
        path = self.folder / f"{secrets.token_hex(8)}.jwt"
        path.write_text(self.token(name, **given))
        return path.as_uri()

    def librdkafka(self, mechanism: str = PLAIN) -> dict[str, str]:
        """Settings of librdkafka's clients. OAUTHBEARER needs an `oauth_cb` that asks `token`. With
        underscores for dots they are those of `floodmark.client`."""
        given = {"security.protocol": self.protocol}
        if self.uses_tls:
            given["ssl.ca.location"] = str(self.ca_file)
        if self.uses_sasl:
            given["sasl.mechanism"] = mechanism
        if self.uses_sasl and mechanism != OAUTHBEARER:
            given |= {"sasl.username": self.user, "sasl.password": self.password}
        return given

    def java(self, mechanism: str = PLAIN) -> dict[str, str]:
        """Settings of Java's clients, and of our command line in a file for `--command-config`."""
        given = {"security.protocol": self.protocol}
        if self.uses_tls:
            given |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.uses_sasl:
            given |= {"sasl.mechanism": mechanism, "sasl.jaas.config": self._jaas(mechanism)}
        if self.uses_sasl and mechanism == OAUTHBEARER:
            given |= {
                "sasl.oauthbearer.token.endpoint.url": self.token_url(),
                "sasl.login.callback.handler.class": _JAVA_MODULES
                + "oauthbearer.OAuthBearerLoginCallbackHandler",
            }
        return given

    def broker_settings(self) -> Mapping[str, str]:
        """Called by `Broker`."""
        given = {
            "listeners": f"{self.protocol}://127.0.0.1:0",
            "security.inter.broker.protocol": self.protocol,
        }
        if self.uses_tls:
            given |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._authority.server_file),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.ca_file),
                "ssl.client.auth": "requested",
            }
        if self.uses_sasl:
            plain = f"listener.name.{self.protocol.lower()}.plain.sasl.jaas.config"
            given |= {
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.mechanism.inter.broker.protocol": PLAIN,
                plain: self._jaas(PLAIN).rstrip(";") + f' user_{self.user}="{self.password}";',
                "sasl.oauthbearer.jwks.endpoint.url": self._issuer.keys_file.as_uri(),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "connection.failed.authentication.delay.ms": "0",
            }
        return given

    def _jaas(self, mechanism: str) -> str:
        if mechanism == OAUTHBEARER:
            return _JAVA_MODULES + "oauthbearer.OAuthBearerLoginModule required;"
        module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
        login = f'username="{self.user}" password="{self.password}"'
        return f"{_JAVA_MODULES}{module} required {login};"
