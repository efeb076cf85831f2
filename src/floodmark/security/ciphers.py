"""`ssl.cipher.suites` and `ssl.enabled.protocols`: maps Java's names to OpenSSL's. PURE.

Python cannot choose among the TLS 1.3 cipher suites, so a list must name all or none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from floodmark.security.errors import SecurityError

TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
TLS_1_3_SUITES = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)


class Choice(NamedTuple):
    versions: tuple[str, ...]
    """The allowed versions, of TLS 1.2 and 1.3."""
    openssl_ciphers: str | None
    """For TLS 1.2; None for the library's default."""


def choose(protocols: Sequence[str], suites: Sequence[str]) -> Choice:
    """Raises SecurityError if nothing is left, or Python does not support it."""
    unknown = [name for name in protocols if name not in (TLS_1_2, TLS_1_3)]
    if unknown:
        raise SecurityError(
            f"ssl.enabled.protocols names {unknown[0]}, which is insecure or unknown",
            f"Use {TLS_1_2}, {TLS_1_3}, or both",
        )
    versions = [name for name in (TLS_1_2, TLS_1_3) if name in protocols]
    if not suites:
        return _checked(versions, None)
    named = TLS_1_3_SUITES & set(suites)
    if TLS_1_3 in versions and named and named != TLS_1_3_SUITES:
        raise SecurityError(
            "ssl.cipher.suites names some but not all TLS 1.3 suites, and Python cannot "
            "choose among them",
            f"Name {', '.join(sorted(TLS_1_3_SUITES))}, or none of them",
        )
    older = [openssl_name(suite) for suite in suites if suite not in TLS_1_3_SUITES]
    if not named and TLS_1_3 in versions:
        versions.remove(TLS_1_3)
    if not older and TLS_1_2 in versions:
        versions.remove(TLS_1_2)
    return _checked(versions, ":".join(older) or None)


def openssl_name(suite: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384` is `ECDHE-RSA-AES256-GCM-SHA384`."""
    exchange, with_, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        return suite
    cipher = cipher.replace("AES_", "AES").replace("CAMELLIA_", "CAMELLIA").replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    # Plain RSA key exchange is implied.
    exchange = "" if exchange == "RSA" else f"{exchange}_"
    return f"{exchange}{cipher}".replace("_", "-")


def _checked(versions: Sequence[str], ciphers: str | None) -> Choice:
    if not versions:
        raise SecurityError(
            "ssl.enabled.protocols and ssl.cipher.suites leave no usable TLS version"
        )
    return Choice(tuple(versions), ciphers)
