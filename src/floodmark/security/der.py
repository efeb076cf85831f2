"""A minimal DER reader for names and dates in certificates. PURE.

OpenSSL usually verifies a certificate before its fields are read here. The reader still checks
every length, because certificates from unverified files are read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

BOOLEAN, OCTET_STRING, OID, SEQUENCE, SET = 0x01, 0x04, 0x06, 0x30, 0x31
_LONG_FORM = 0x80
_MOST_LENGTH_BYTES = 4


class Value(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes
    """Tag, length and content."""


def read_value(data: bytes, position: int = 0) -> tuple[Value, int]:
    """The value at this position, and the next position. Raises ValueError if it is truncated."""
    if position + 2 > len(data):
        raise ValueError("a DER value is truncated")
    tag, length = data[position], data[position + 1]
    begin = position + 2
    if length & _LONG_FORM:
        length_bytes = length & ~_LONG_FORM
        if not 1 <= length_bytes <= _MOST_LENGTH_BYTES:
            raise ValueError("a DER length is not valid")
        length = int.from_bytes(data[begin : begin + length_bytes], "big")
        begin += length_bytes
    end = begin + length
    if end > len(data):
        raise ValueError("a DER value is truncated")
    return Value(tag, data[begin:end], data[position:end]), end


def values(data: bytes) -> Iterator[Value]:
    """The consecutive values in the content of a sequence or set."""
    position = 0
    while position < len(data):
        value, position = read_value(data, position)
        yield value


def first(data: bytes) -> Value:
    """The first of these values. Raises ValueError if there is none."""
    return read_value(data)[0]


def dotted_oid(content: bytes) -> str:
    """Decodes an object identifier, such as `2.5.4.3`."""
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & _LONG_FORM:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier is empty")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
