"""`floodmark up --secure`: a certificate authority, a certificate and an admin for development.

They are made once, in the folder `security` of the data folder, and used again by the next start.
Only their owner can read them.
"""

from __future__ import annotations

import os
import secrets
import socket
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from floodmark.cli.errors import CliError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

FOLDER = "security"
ADMIN = "admin"
LIFETIME = timedelta(days=825)
"""The longest that clients accept of a server's certificate."""

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecureFolder(NamedTuple):
    path: Path

    @property
    def ca(self) -> Path:
        return self.path / "ca.pem"

    @property
    def server(self) -> Path:
        return self.path / "server.pem"

    @property
    def password(self) -> Path:
        return self.path / "admin.password"

    @property
    def java(self) -> Path:
        return self.path / "client.properties"

    @property
    def librdkafka(self) -> Path:
        return self.path / "librdkafka.conf"


def secure_properties(data_dir: Path, host: str, port: int) -> dict[str, str]:
    """The settings of the broker; makes the files where they are not there yet."""
    folder = SecureFolder((data_dir / FOLDER).absolute())
    folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not folder.server.exists():
        _make_certificates(folder, host)
    if not folder.password.exists():
        _write(folder.password, secrets.token_urlsafe(18) + "\n")
    password = folder.password.read_text().strip()
    _write_clients(folder, password)
    shown = f"[{host}]" if ":" in host else host
    return {
        "listeners": f"SASL_SSL://{shown}:{port}",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required username="{ADMIN}" password="{password}" '
            f'user_{ADMIN}="{password}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder.ca),
    }


def say_secure(data_dir: Path, address: str, command: str) -> None:
    """What to type next; the secrets stay in the files."""
    folder = SecureFolder((data_dir / FOLDER).absolute())
    click.echo(f"  user {ADMIN}, TLS by a development CA; settings for clients with both:")
    click.echo(f"  Java:        --command-config {folder.java}")
    click.echo(f"  librdkafka:  {folder.librdkafka}")
    click.echo(f"  kcat:        kcat -F {folder.librdkafka} -b {address} -L")
    click.echo(f"  ours:        {command} topic list -b {address} --command-config {folder.java}")
    click.echo(
        f"  more users:  {command} user set alice -b {address} --command-config {folder.java}"
    )


def _write_clients(folder: SecureFolder, password: str) -> None:
    java = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder.ca),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="{ADMIN}" password="{password}";',
    }
    librdkafka = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(folder.ca),
        "sasl.mechanisms": "PLAIN",
        "sasl.username": ADMIN,
        "sasl.password": password,
    }
    for path, settings in ((folder.java, java), (folder.librdkafka, librdkafka)):
        _write(path, "".join(f"{name}={value}\n" for name, value in settings.items()))


def _make_certificates(folder: SecureFolder, host: str) -> None:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding
    except ImportError:
        raise CliError(
            "--secure cannot make certificates",
            why="a library for them is not installed",
            hint="pip install 'floodmark[security]'",
        ) from None
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _certificate("Floodmark development CA", ca_key, None, ca_key, [])
    server = _certificate("floodmark", key, ca, ca_key, _names(host))
    ca_text = ca.public_bytes(Encoding.PEM).decode()
    _write(folder.path / "ca.key", _pem(ca_key))
    _write(folder.ca, ca_text)
    _write(folder.server, _pem(key) + server.public_bytes(Encoding.PEM).decode() + ca_text)


def _names(host: str) -> list[str]:
    own = ["localhost", socket.gethostname(), "127.0.0.1", "::1"]
    return list(dict.fromkeys([*own, *([host] if host not in ("", "0.0.0.0", "::") else [])]))


def _certificate(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: EllipticCurvePrivateKey,
    names: list[str],
) -> x509.Certificate:
    """A server's by its issuer, or without one that of the authority itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(issuer is None, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
