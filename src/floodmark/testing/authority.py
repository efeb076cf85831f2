"""A certificate authority and a token issuer for one broker of a test. Used by `secured`.

Imported only where a test asks for security: it needs cryptography and joserfc.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

_LIFETIME = timedelta(days=1)
_ADDRESSES = ("localhost", "127.0.0.1", "::1")


class Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Floodmark test CA")
        ca = self._signed(self._name, self._key, x509.BasicConstraints(True, None))
        self._ca_text = ca.public_bytes(Encoding.PEM).decode()
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_text(self._ca_text)
        self.server_file = self._issue("server", x509.SubjectAlternativeName(_names(_ADDRESSES)))

    def client(self, name: str) -> Path:
        return self._issue(name, x509.SubjectAlternativeName([x509.DNSName("client")]))

    def _issue(self, name: str, names: x509.SubjectAlternativeName) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        issued = self._signed(_name(name), key, x509.BasicConstraints(False, None), names)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        path = self._folder / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_text(text + issued.public_bytes(Encoding.PEM).decode() + self._ca_text)
        return path

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + _LIFETIME)
        )
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        own_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        for extension in (*extensions, authority_key, own_key):
            is_critical = isinstance(extension, x509.BasicConstraints)
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(self._key, hashes.SHA256())


class TokenIssuer:
    """Signs tokens; its public key lies in `keys_file`, as a JSON web key set."""

    def __init__(self, folder: Path, issuer: str) -> None:
        self._key = ECKey.generate_key("P-256", {"kid": issuer})
        self.keys_file = folder / "keys.json"
        self.keys_file.write_text(json.dumps(KeySet([self._key]).as_dict(private=False)))

    def sign(self, claims: Mapping[str, Any]) -> str:
        header = {"alg": "ES256", "kid": self._key.kid}
        return jwt.encode(header, dict(claims), self._key, algorithms=["ES256"])


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _names(texts: tuple[str, ...]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for text in texts:
        try:
            names.append(x509.IPAddress(ip_address(text)))
        except ValueError:
            names.append(x509.DNSName(text))
    return names
