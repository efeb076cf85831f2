"""Reads a certificate's subject in Java's format, its names, and its expiry. PURE.

Kafka's principals and `ssl.principal.mapping.rules` use the subject in the RFC 2253 format of
Java's `X500Principal.getName()`, which Python's ssl module does not provide.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from floodmark.security import der

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 names. All others are written by number and in hexadecimal."""

_TEXTS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The kinds of strings that Java writes as text. Java reads all of them as UTF-8, even a BMPString,
which is UTF-16 and practically unused; ACLs name the result."""

_ESCAPES = {**{char: f"\\{char}" for char in ',=+<>#;"\\'}, "\0": "\\00"}
_BLANKS = " \r"
_SUBJECT_ALTERNATIVE_NAME = "2.5.29.17"
_UTC_TIME = 0x17
_EXPLICIT_VERSION = 0xA0
_EXTENSIONS = 0xA3


class Certificate(NamedTuple):
    subject: str
    not_after: datetime
    alternative_names: frozenset[bytes]
    """In encoded form: only for comparison."""


def read_certificate(encoded: bytes) -> Certificate:
    """Raises ValueError if it is not a certificate."""
    outer, _ = der.read_value(encoded)
    signed = der.first(outer.content)
    fields = list(der.values(signed.content))
    if fields and fields[0].tag == _EXPLICIT_VERSION:
        del fields[0]
    if len(fields) < 6:
        raise ValueError("this is not a certificate")
    _, _, _, validity, subject = fields[:5]
    _, not_after = der.values(validity.content)
    return Certificate(
        _name(subject.content),
        _time(not_after),
        _alternative_names(fields[6:]),
    )


def _name(content: bytes) -> str:
    """The most specific part first, which is last in the certificate."""
    parts = []
    for relative in der.values(content):
        attributes = [_attribute(attribute.content) for attribute in der.values(relative.content)]
        parts.append("+".join(attributes))
    return ",".join(reversed(parts))


def _attribute(content: bytes) -> str:
    kind, value = der.values(content)
    oid = der.dotted_oid(kind.content)
    if oid not in _KEYWORDS or value.tag not in _TEXTS:
        return f"{_KEYWORDS.get(oid, oid)}=#{value.encoded.hex()}"
    return f"{_KEYWORDS[oid]}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """Java escapes more than RFC 2253 demands, and blanks at both ends, each of them."""
    escaped = "".join(_ESCAPES.get(char, char) for char in text)
    inner = escaped.strip(_BLANKS)
    if not inner:
        return _each_escaped(escaped)
    before, _, after = escaped.partition(inner)
    return f"{_each_escaped(before)}{inner}{_each_escaped(after)}"


def _each_escaped(blanks: str) -> str:
    return "".join(f"\\{char}" for char in blanks)


def _time(value: der.Value) -> datetime:
    text = value.content.decode("ascii").removesuffix("Z")
    if value.tag == _UTC_TIME:
        # Two-digit years: 50 to 99 belong to the last century (RFC 5280).
        text = f"{'19' if text[:2] >= '50' else '20'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _alternative_names(rest: list[der.Value]) -> frozenset[bytes]:
    for field in rest:
        if field.tag != _EXTENSIONS:
            continue
        for extension in der.values(der.first(field.content).content):
            kind, *_, value = der.values(extension.content)
            if der.dotted_oid(kind.content) == _SUBJECT_ALTERNATIVE_NAME:
                names = der.first(value.content)
                return frozenset(name.encoded for name in der.values(names.content))
    return frozenset()
