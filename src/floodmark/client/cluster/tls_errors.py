"""Explains failed TLS handshakes to users. PURE."""

from __future__ import annotations

import ssl

from floodmark.client.errors import AuthenticationError, ConnectionFailed, KafkaError

_PLAINTEXT_PORT = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


def tls_failure(address: str, error: ssl.SSLError) -> KafkaError:
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(
            f"SSL handshake failed: the certificate of {address} was rejected: "
            f"{error.verify_message}"
        )
    if reason in _PLAINTEXT_PORT:
        return AuthenticationError(
            f"SSL handshake failed: {address} does not speak TLS; is it a PLAINTEXT listener?"
        )
    if "ALERT" in reason or "CERTIFICATE" in reason:
        return AuthenticationError(
            f"SSL handshake failed: {address} refused it ({reason.lower().replace('_', ' ')})"
        )
    return ConnectionFailed(f"SSL handshake with {address} failed: {reason or error}")
