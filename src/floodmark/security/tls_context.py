"""Builds an `ssl.SSLContext` from `ssl.*` settings. The only file here that reads the disk.

Called by `broker.tls_listeners` and by our client. Python's ssl accepts keys only from files, so a
key given as text or in a PKCS12 store passes through an in-memory file, which is gone before the
function returns.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from floodmark.security.certificate import Certificate, read_certificate
from floodmark.security.ciphers import TLS_1_2, choose
from floodmark.security.errors import SecurityError
from floodmark.security.pem import normalized
from floodmark.security.tls_settings import (
    JKS,
    PEM,
    PKCS12,
    REQUESTED,
    REQUIRED,
    StoreSettings,
    TlsSettings,
)

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_BEGIN = "-----BEGIN CERTIFICATE-----"
_END = "-----END CERTIFICATE-----"


FileMarks = tuple[tuple[int, int] | None, ...]


class ServerTls(NamedTuple):
    context: ssl.SSLContext
    certificate: Certificate


class _Material(NamedTuple):
    """A store's contents as PEM."""

    key_and_chain: str
    certificates: str
    password: str | None


def file_marks(settings: TlsSettings) -> FileMarks:
    """Differs when one of the files has been replaced."""
    marks: list[tuple[int, int] | None] = []
    for location in settings.files:
        try:
            status = Path(location).stat()
        except OSError:
            marks.append(None)
        else:
            marks.append((status.st_mtime_ns, status.st_size))
    return tuple(marks)


def server_tls(settings: TlsSettings) -> ServerTls:
    """What a listener needs. Raises SecurityError if it is incomplete or unreadable."""
    if not settings.key_store.is_given:
        raise SecurityError(
            "a listener with TLS needs a key and a certificate, but none is set",
            "Set ssl.keystore.type=PEM and ssl.keystore.location to a file with both",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, settings)
    # Without tickets, every connection presents its certificate again, even after a trust change.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    material = _load_key(context, settings.key_store)
    if settings.client_auth in (REQUESTED, REQUIRED):
        is_required = settings.client_auth == REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        _load_trust(context, settings.trust_store)
    return ServerTls(context, first_certificate(material.certificates))


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit(context, settings)
    context.check_hostname = settings.checks_host_name
    if settings.trust_store.is_given:
        _load_trust(context, settings.trust_store)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.key_store.is_given:
        _load_key(context, settings.key_store)
    return context


def first_certificate(pem: str) -> Certificate:
    begin = pem.find(_BEGIN)
    end = pem.find(_END, begin)
    if begin < 0 or end < 0:
        raise SecurityError("there is no certificate in the key store")
    try:
        return read_certificate(ssl.PEM_cert_to_DER_cert(pem[begin : end + len(_END)]))
    except ValueError as problem:
        raise SecurityError(f"the certificate in the key store is not valid: {problem}") from None


def _limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    choice = choose(settings.enabled_protocols, settings.cipher_suites)
    by_name = {
        name: ssl.TLSVersion.TLSv1_2 if name == TLS_1_2 else ssl.TLSVersion.TLSv1_3
        for name in choice.versions
    }
    context.minimum_version = min(by_name.values())
    context.maximum_version = max(by_name.values())
    if choice.openssl_ciphers is not None:
        try:
            context.set_ciphers(choice.openssl_ciphers)
        except ssl.SSLError:
            raise SecurityError(
                "OpenSSL supports none of the suites in ssl.cipher.suites",
                "`openssl ciphers -stdname` lists the supported ones",
            ) from None


def _load_key(context: ssl.SSLContext, store: StoreSettings) -> _Material:
    material = _read_store(store, "ssl.keystore")
    try:
        with _file_in_memory(material.key_and_chain) as path:
            # A function, because otherwise OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=lambda: material.password or "")
    except ssl.SSLError as problem:
        reason = problem.reason or "it is unreadable"
        raise SecurityError(
            f"the key and certificate of {_named(store, 'ssl.keystore')} are unusable: "
            f"{reason.lower().replace('_', ' ')}",
            "Check that the key belongs to the first certificate, and ssl.key.password to the key",
        ) from None
    return material


def _load_trust(context: ssl.SSLContext, store: StoreSettings) -> None:
    if not store.is_given:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    material = _read_store(store, "ssl.truststore")
    # As in Java, everything in the store is trusted, root or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=material.certificates)
    except ssl.SSLError:
        raise SecurityError(
            f"there are no trusted certificates in {_named(store, 'ssl.truststore')}"
        ) from None


def _read_store(store: StoreSettings, prefix: str) -> _Material:
    if store.certificate_file and store.key_file:
        key = _read_file(store.key_file, "ssl.key").decode("utf-8", "replace")
        chain = _read_file(store.certificate_file, "ssl.certificate").decode("utf-8", "replace")
        certificates = normalized(chain)
        return _Material(normalized(key) + certificates, certificates, store.key_password)
    if store.location is None:
        _refuse_type(store, prefix, PEM)
        if prefix == "ssl.keystore" and not (store.key and store.certificates):
            raise SecurityError(
                "ssl.keystore.key and ssl.keystore.certificate.chain must be set together"
            )
        certificates = normalized(store.certificates or "")
        return _Material(
            normalized(store.key or "") + certificates, certificates, store.key_password
        )
    if store.certificates or store.key:
        raise SecurityError(
            f"{prefix}.location and PEM text in other settings are both set",
            f"Remove {prefix}.location or the text",
        )
    data = _read_file(store.location, prefix)
    if data.startswith(_JKS_MAGIC):
        raise _convert_jks(store.location, prefix)
    if store.type == PEM:
        text = normalized(data.decode("utf-8", "replace"))
        return _Material(text, text, store.key_password)
    if b"-----BEGIN" in data:
        raise SecurityError(f"{store.location} holds PEM text", f"Set {prefix}.type=PEM")
    _refuse_type(store, prefix, PKCS12, JKS)
    return _read_pkcs12(data, store, prefix)


def _refuse_type(store: StoreSettings, prefix: str, *possible: str) -> None:
    if store.type not in possible:
        raise SecurityError(
            f"{prefix}.type={store.type} is not supported here", f"Set {prefix}.type={possible[0]}"
        )


def _convert_jks(location: str, prefix: str) -> SecurityError:
    target = str(Path(location).with_suffix(".p12"))
    return SecurityError(
        f"{location} is a Java key store (JKS), which is not supported",
        f"Convert it with: keytool -importkeystore -srckeystore {location} -destkeystore {target} "
        f"-deststoretype PKCS12; then set {prefix}.location={target} and {prefix}.type=PKCS12",
    )


def _read_file(location: str, prefix: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as problem:
        raise SecurityError(
            f"{prefix}.location={location} could not be read: {problem.strerror}"
        ) from None


def _read_pkcs12(data: bytes, store: StoreSettings, prefix: str) -> _Material:
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        raise SecurityError(
            f"{_named(store, prefix)} is a PKCS12 store, which needs another library",
            "pip install 'floodmark[security]', or use PEM",
        ) from None
    try:
        found = pkcs12.load_pkcs12(data, (store.password or "").encode())
    except ValueError:
        raise SecurityError(
            f"{_named(store, prefix)} could not be opened: the password is wrong, or it is not a "
            "PKCS12 store"
        ) from None
    held = [found.cert, *found.additional_certs]
    certificates = "".join(
        one.certificate.public_bytes(Encoding.PEM).decode() for one in held if one is not None
    )
    key = ""
    if found.key is not None:
        key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return _Material(key + certificates, certificates, None)


def _named(store: StoreSettings, prefix: str) -> str:
    return store.location or f"the text of {prefix}.*"


@contextmanager
def _file_in_memory(text: str) -> Iterator[str]:
    """A file that no other user can open, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("floodmark-key")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name
