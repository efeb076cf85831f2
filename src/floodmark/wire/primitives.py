"""Helpers that generated codecs call off their fast paths, and the limits they enforce.

Called by the code that `wire/decode_source.py` and `wire/encode_source.py` write.
"""

from functools import lru_cache
from typing import Any
from uuid import UUID

from floodmark.wire.schema import DecodeError, EncodeError

MAX_ENTRIES = 1_000_000
"""Elements of all arrays of a message together, unless the caller allows fewer; refused before
anything is allocated."""

NUMBERS_PER_ENTRY = 2
"""So many numbers count as one entry: they take less time and memory than structures or texts."""

MAX_TAGGED_FIELDS = 10_000
"""Kafka defines fewer than ten tags per structure; the rest is room for the future."""

MAX_STRING_BYTES = 32767
"""Kafka's limit for strings in every encoding, because the old one had an int16 length."""

MAX_BYTES_TO_GROW = MAX_STRING_BYTES // 3
"""No string up to this length becomes too long by replacement characters."""

MAX_VARINT = 0x7FFFFFFF
"""Lengths, counts and tags are Java ints."""

ONE_BYTE = tuple(bytes((value,)) for value in range(128))


@lru_cache(maxsize=4096)
def uuid_from_bytes(data: bytes) -> UUID:
    """A broker sees the same topic ids again and again, and UUID's constructor is slow."""
    return UUID(bytes=data)


def encode_varint(value: int) -> bytes:
    """An unsigned varint: seven bits per byte, the lowest first."""
    if value < 128:
        return ONE_BYTE[value]
    if value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def finish_varint(buffer: Any, position: int, first: int) -> tuple[int, int]:
    """The varint whose first byte was read and was over 127; IndexError when the bytes end."""
    value = first & 127
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise DecodeError(f"a varint before byte {position} is longer than five bytes")
    if value > MAX_VARINT:
        raise DecodeError(f"the varint before byte {position} exceeds an int32")
    return value, position


def read_varint(buffer: Any, position: int) -> tuple[int, int]:
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return finish_varint(buffer, position + 1, first)


def encode_bytes_length(size: int, is_flexible: bool) -> bytes:
    """What stands in front of bytes or records."""
    return encode_varint(size + 1) if is_flexible else size.to_bytes(4, "big", signed=True)


def read_bytes_length(buffer: Any, position: int, is_flexible: bool) -> tuple[int, int]:
    """The size of bytes or records, and where they begin; -1 for null, IndexError when the bytes
    end."""
    if is_flexible:
        size, position = buffer[position], position + 1
        if size > 127:
            size, position = finish_varint(buffer, position, size)
        return size - 1, position
    if position + 4 > len(buffer):
        raise IndexError
    return int.from_bytes(buffer[position : position + 4], "big", signed=True), position + 4


def tag_count(buffer: Any, position: int, first: int) -> tuple[int, int]:
    """The number of tagged fields, of which one byte, `first`, was read."""
    count = first
    if first > 127:
        count, position = finish_varint(buffer, position, first)
    if count > MAX_TAGGED_FIELDS:
        raise DecodeError(f"{count} tagged fields; at most {MAX_TAGGED_FIELDS} are accepted")
    return count, position


def read_tag(buffer: Any, position: int, end: int) -> tuple[int, int, int]:
    """A tag, where its value starts, and where it stops."""
    tag, position = read_varint(buffer, position)
    size, position = read_varint(buffer, position)
    if size > end - position:
        raise DecodeError(f"tagged field {tag} claims {size} bytes, {end - position} remain")
    return tag, position, position + size


def skip_tags(buffer: Any, position: int, first: int, end: int) -> int:
    """Walk over a tag section in which this version knows no field."""
    count, position = tag_count(buffer, position, first)
    for _ in range(count):
        _, _, position = read_tag(buffer, position, end)
    return position


def refuse_length(name: str, length: int, remaining: int) -> None:
    """Raise for a length that cannot be true."""
    if length < 0:
        raise DecodeError(f"{name} is null or has the negative length {length}")
    raise DecodeError(f"{name} claims length {length}, {remaining} bytes remain")


def refuse_array(name: str, length: int, remaining: int) -> None:
    """Raise for an array that cannot be true, or that is one too many."""
    if 0 <= length <= remaining:
        raise DecodeError(f"{name} has {length} elements, which makes too many in one message")
    refuse_length(name, length, remaining)


def check_growth(name: str, text: str) -> None:
    """A byte that is no UTF-8 has become three: what is too long by that could neither be answered
    nor kept."""
    length = len(text.encode())
    if length > MAX_STRING_BYTES:
        raise DecodeError(f"{name} is no UTF-8 and has {length} bytes with replacement characters")


def part_size(part: Any) -> int:
    if isinstance(part, bytes | bytearray):
        return len(part)
    if isinstance(part, memoryview):
        return part.nbytes
    size: int = part.size_bytes
    return size


def record_size(value: Any) -> int:
    """The size in bytes of what a `records` field holds."""
    if isinstance(value, list):
        return sum(map(part_size, value))
    return part_size(value)


def refuse_string(name: str, length: int) -> None:
    raise EncodeError(f"{name} has {length} bytes; a string has at most {MAX_STRING_BYTES}")
