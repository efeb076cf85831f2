"""The two bytes in front of data that Kafka stores or passes on: a version, or a record's type.

Called by the coordinators, which keep keys and values in `__consumer_offsets` and
`__transaction_state`, by the client for the consumer protocol, and by whoever dumps those topics.

A value and a consumer-protocol datum start with the version they are written in. A key starts
with the type of its record; the keys themselves have no versions.
"""

import struct
from collections.abc import Mapping
from typing import Any, TypeVar

from floodmark.wire.compiler import Buffer, decode, encode
from floodmark.wire.schema import DecodeError, schema_of

T = TypeVar("T")

_PREFIX = struct.Struct(">h")


def encode_versioned(message: Any, version: int) -> bytes:
    """The version, then the message."""
    return _PREFIX.pack(version) + encode(message, version)


def read_prefix(buffer: Buffer) -> int:
    """The version or record type at the start."""
    if len(buffer) < 2:
        raise DecodeError("the datum is too short for its version")
    prefix: int = _PREFIX.unpack_from(buffer)[0]
    return prefix


def decode_versioned(cls: type[T], buffer: Buffer) -> T:
    """The message in the version that the datum names; `UnsupportedVersion` if we lack it."""
    return decode(cls, buffer, read_prefix(buffer), 2)


def decode_versioned_or_newest(cls: type[T], buffer: Buffer) -> T:
    """As `decode_versioned`, but a version newer than ours is read as our newest.

    The consumer protocol promises that its versions only add fields at the end.
    """
    return decode(cls, buffer, min(read_prefix(buffer), schema_of(cls).versions[1]), 2)


def encode_key(key: Any, record_type: int) -> bytes:
    """The record type, then the key."""
    return _PREFIX.pack(record_type) + encode(key, 0)


def decode_key(key_classes: Mapping[int, type[Any]], buffer: Buffer) -> Any | None:
    """The key of a record; None when its type is not among the classes."""
    cls = key_classes.get(read_prefix(buffer))
    return None if cls is None else decode(cls, buffer, 0, 2)
