"""Format strings in kcat's style: `%t [%p] at %o: key %k value %s\\n`.

Used by `consume` and `cat`. A format is compiled once and called per record.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from struct import Struct

import click

from floodmark.client.cluster.view import TopicPartition
from floodmark.records.record import Header, Record, header_name_bytes

Formatter = Callable[[TopicPartition, Record], bytes]

_INT32 = Struct(">i")
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\", "'": b"'", '"': b'"'}

FORMAT_HELP = (
    "%s value, %k key, %o offset, %p partition, %t topic, %T timestamp, %h headers, "
    "%S and %K sizes, %R size as four bytes, \\n \\t \\xHH"
)


def compile_format(text: str, *, null: bytes = b"") -> Formatter:
    """Returns a function from a record to its bytes. `null` replaces a missing key or value."""
    parts: list[bytes | Formatter] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "%":
            parts.append(_field(text[position + 1 : position + 2], null))
            position += 2
        elif character == "\\":
            literal, length = _escape(text, position + 1)
            parts.append(literal)
            position += 1 + length
        else:
            parts.append(os.fsencode(character))
            position += 1
    joined = _join_literals(parts)

    def format_record(partition: TopicPartition, record: Record) -> bytes:
        return b"".join(
            part if isinstance(part, bytes) else part(partition, record) for part in joined
        )

    return format_record


def unescape(text: str) -> bytes:
    """Decodes a delimiter from the command line: `\\t` and `\\x01` each mean one byte."""
    if not text:
        raise click.UsageError("the delimiter must have at least one character")
    result = b""
    position = 0
    while position < len(text):
        if text[position] == "\\":
            literal, length = _escape(text, position + 1)
            result += literal
            position += 1 + length
        else:
            result += os.fsencode(text[position])
            position += 1
    return result


def _escape(text: str, position: int) -> tuple[bytes, int]:
    """Decodes the escape after a backslash. Returns its bytes and its length in characters."""
    character = text[position : position + 1]
    if character == "x":
        digits = text[position + 1 : position + 3]
        try:
            return bytes.fromhex(digits), 3
        except ValueError:
            raise click.UsageError(
                f"\\x{digits} is not a byte: use two hexadecimal digits"
            ) from None
    if character in _ESCAPES:
        return _ESCAPES[character], 1
    return os.fsencode("\\" + character), len(character)


def _field(letter: str, null: bytes) -> bytes | Formatter:
    fields: dict[str, bytes | Formatter] = {
        "%": b"%",
        "s": lambda _, record: null if record.value is None else record.value,
        "k": lambda _, record: null if record.key is None else record.key,
        "S": lambda _, record: str(_size(record.value)).encode(),
        "K": lambda _, record: str(_size(record.key)).encode(),
        "R": lambda _, record: _INT32.pack(_size(record.value)),
        "o": lambda _, record: str(record.offset).encode(),
        "p": lambda partition, _: str(partition.partition).encode(),
        "t": lambda partition, _: partition.topic.encode(),
        "T": lambda _, record: str(record.timestamp).encode(),
        "h": lambda _, record: _headers(record.headers, null),
    }
    if letter not in fields:
        raise click.UsageError(f"%{letter} is not a format field; use {FORMAT_HELP}")
    return fields[letter]


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers(headers: list[Header], null: bytes) -> bytes:
    return b",".join(
        header_name_bytes(name) + b"=" + (null if value is None else value)
        for name, value in headers
    )


def _join_literals(parts: list[bytes | Formatter]) -> list[bytes | Formatter]:
    joined: list[bytes | Formatter] = []
    for part in parts:
        if joined and isinstance(part, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += part
        else:
            joined.append(part)
    return joined
