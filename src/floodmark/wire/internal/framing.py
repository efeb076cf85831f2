"""The two-byte prefix of data that Kafka stores or passes on: a version, or a record's type.

Called by the coordinators for keys and values in `__consumer_offsets` and `__transaction_state`, by
the client for the consumer protocol, and by tools that dump those topics.

Values and data of the consumer protocol start with their version. Keys start with the type of their
record and have no version.
"""

import struct
from collections.abc import Mapping
from typing import Any, TypeVar

from floodmark.wire.compiler import decode, encode
from floodmark.wire.schema import Buffer, DecodeError, schema_of

T = TypeVar("T")

_PREFIX = struct.Struct(">h")


def encode_versioned(message: Any, version: int) -> bytes:
    """The version, then the message."""
    return _PREFIX.pack(version) + encode(message, version)


def read_prefix(buffer: Buffer) -> int:
    """The version or record type at the start."""
    if len(buffer) < 2:
        raise DecodeError("the data is too short for its version")
    prefix: int = _PREFIX.unpack_from(buffer)[0]
    return prefix


def decode_versioned(cls: type[T], buffer: Buffer) -> T:
    """The message, in the version at its start. Raises UnsupportedVersion if we lack it."""
    return decode(cls, buffer, read_prefix(buffer), 2)


def decode_versioned_or_newest(cls: type[T], buffer: Buffer) -> T:
    """Like `decode_versioned`, but reads a version newer than ours as our newest.

    New versions of the consumer protocol only add fields at the end.
    """
    return decode(cls, buffer, min(read_prefix(buffer), schema_of(cls).versions[1]), 2)


def encode_key(key: Any, record_type: int) -> bytes:
    """The record type, then the key."""
    return _PREFIX.pack(record_type) + encode(key, 0)


def decode_key(key_classes: Mapping[int, type[Any]], buffer: Buffer) -> Any | None:
    """The key of a record. None for an unknown type."""
    cls = key_classes.get(read_prefix(buffer))
    return None if cls is None else decode(cls, buffer, 0, 2)
