"""`floodmark up --secure`: a development CA, server certificates and an admin user.

Created once in the `security` folder of the data folder, or in --security-dir, and reused on later
starts. The brokers of a cluster share the folder; each has its own certificate. Only the owner can
read the files.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
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
"""The longest lifetime that clients accept for a server certificate."""

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecureFolder(NamedTuple):
    path: Path

    @property
    def ca(self) -> Path:
        return self.path / "ca.pem"

    @property
    def ca_key(self) -> Path:
        return self.path / "ca.key"

    def server(self, broker_id: int | None) -> Path:
        return self.path / ("server.pem" if broker_id is None else f"broker-{broker_id}.pem")

    @property
    def token_key(self) -> Path:
        return self.path / "token.key"

    @property
    def password(self) -> Path:
        return self.path / "admin.password"

    @property
    def java(self) -> Path:
        return self.path / "client.properties"

    @property
    def librdkafka(self) -> Path:
        return self.path / "librdkafka.conf"


def secure_folder(data_dir: Path, security_dir: str | None) -> Path:
    return (data_dir / FOLDER if security_dir is None else Path(security_dir)).absolute()


def secure_properties(
    path: Path, host: str, port: int, broker_id: int | None = None
) -> dict[str, str]:
    """The broker's settings. Creates missing files in `path`."""
    folder = SecureFolder(path)
    folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(folder):
        if not folder.server(broker_id).exists():
            _make_certificate(folder, host, broker_id)
        password = _secret(folder.password)
        token_key = _secret(folder.token_key)
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
        "ssl.keystore.location": str(folder.server(broker_id)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder.ca),
        "delegation.token.secret.key": token_key,
    }


@contextmanager
def _locked(folder: SecureFolder) -> Iterator[None]:
    """Keeps brokers that start together from creating two CAs."""
    descriptor = os.open(folder.path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _secret(path: Path) -> str:
    if not path.exists():
        _write(path, secrets.token_urlsafe(18) + "\n")
    return path.read_text().strip()


def say_secure(path: Path, address: str, command: str) -> None:
    """Prints the next steps. Secrets stay in the files."""
    folder = SecureFolder(path)
    click.echo(f"  user {ADMIN}, TLS with a development CA; client settings for both:")
    click.echo(f"  Java:        --command-config {folder.java}")
    click.echo(f"  librdkafka:  {folder.librdkafka}")
    click.echo(f"  kcat:        kcat -F {folder.librdkafka} -b {address} -L")
    click.echo(f"  floodmark:   {command} topic list -b {address} --command-config {folder.java}")
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
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        # Clients may be reading it: another broker has written it before us.
        if not path.exists() or path.read_text() != text:
            _write(path, text)


def _make_certificate(folder: SecureFolder, host: str, broker_id: int | None) -> None:
    """Signs a certificate with the folder's CA, which the first call creates."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
    except ImportError:
        raise CliError(
            "--secure cannot create certificates",
            why="the required library is not installed",
            hint="pip install 'floodmark[security]'",
        ) from None
    if not folder.ca.exists():
        new_key = ec.generate_private_key(ec.SECP256R1())
        _write(folder.ca_key, _pem(new_key))
        new = _certificate("Floodmark development CA", new_key, None, new_key, [])
        _write(folder.ca, new.public_bytes(Encoding.PEM).decode())
    ca_text = folder.ca.read_text()
    ca = x509.load_pem_x509_certificate(ca_text.encode())
    ca_key = load_pem_private_key(folder.ca_key.read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    name = "floodmark" if broker_id is None else f"floodmark-{broker_id}"
    server = _certificate(name, key, ca, ca_key, _names(host))
    pem = _pem(key) + server.public_bytes(Encoding.PEM).decode() + ca_text
    _write(folder.server(broker_id), pem)


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
    """A server certificate signed by the issuer, or a self-signed CA certificate without one."""
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
