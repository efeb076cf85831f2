"""Certificates for tests, made by trustme: an authority, servers, and clients with subjects."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

STORE_PASSWORD = "store-secret"
KEY_PASSWORD = "key-secret"


class Authority:
    """A certificate authority with a folder for what it issues."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.ca_file))
        self.ca_text = self.ca_file.read_text()

    def server(self, name: str = "server", *, expires: datetime | None = None) -> Path:
        """A PEM file with key and certificate for 127.0.0.1 and localhost."""
        issued = self._ca.issue_cert(
            "localhost",
            "127.0.0.1",
            common_name=name,
            organization_name="Floodmark",
            organization_unit_name="tests",
            not_after=expires,
        )
        return self._keep(name, issued)

    def expired_server(self) -> Path:
        return self.server("expired", expires=datetime.now(UTC) - timedelta(days=1))

    def client(self, name: str, *, expires: datetime | None = None) -> Path:
        issued = self._ca.issue_cert(
            f"{name}@example.org",
            common_name=name,
            organization_name="Floodmark",
            organization_unit_name="tests",
            not_after=expires,
        )
        return self._keep(name, issued)

    def expired_client(self) -> Path:
        return self.client("late", expires=datetime.now(UTC) - timedelta(days=1))

    def _keep(self, name: str, issued: trustme.LeafCert) -> Path:
        path = self.folder / f"{name}.pem"
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        # In PKCS#8, which Java reads as well.
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path.write_bytes(pkcs8 + chain)
        return path


def encrypted(pem: Path) -> Path:
    """The same with its key encrypted by KEY_PASSWORD, in PKCS#8."""
    key = serialization.load_pem_private_key(pem.read_bytes(), None)
    certificates = pem.read_bytes()[pem.read_bytes().index(b"-----BEGIN CERTIFICATE") :]
    path = pem.with_suffix(".encrypted.pem")
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
        )
        + certificates
    )
    return path


def as_pkcs12(pem: Path) -> Path:
    """The same as a PKCS12 store under STORE_PASSWORD."""
    data = pem.read_bytes()
    key: Any = serialization.load_pem_private_key(data, None)
    first, *others = x509.load_pem_x509_certificates(data)
    path = pem.with_suffix(".p12")
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"server",
            key,
            first,
            others,
            serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
        )
    )
    return path


def certificate_of(attributes: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    """A self-signed certificate, in DER, with this subject: its first attribute comes first."""
    return certificate_of_name(
        x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    )


def certificate_of_name(name: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=datetime(2020, 1, 1, tzinfo=UTC),
        not_valid_after=datetime(2030, 5, 6, 7, 8, 9, tzinfo=UTC),
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


COMMON_NAME, ORGANIZATION, COUNTRY = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.COUNTRY_NAME,
)
EMAIL = NameOID.EMAIL_ADDRESS
