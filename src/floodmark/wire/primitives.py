"""Helpers that generated codecs call outside their fast paths, and the limits they enforce.

Called by the code that `wire/decode_source.py` and `wire/encode_source.py` generate.
"""

from functools import lru_cache
from uuid import UUID

from floodmark.wire.schema import Buffer, DecodeError, EncodeError, RecordPart

MAX_ENTRIES = 1_000_000
"""The most elements that all arrays of a message may have together, unless the caller sets a lower
limit. Checked before anything is allocated."""

NUMBERS_PER_ENTRY = 2
"""This many numbers count as one entry: they take less time and memory than structures or texts."""

MAX_TAGGED_FIELDS = 10_000
"""Kafka defines fewer than ten tags per structure; the rest is room for the future."""

MAX_STRING_BYTES = 32767
"""Kafka's limit for strings in every encoding, because the old one had an int16 length."""

MAX_BYTES_TO_GROW = MAX_STRING_BYTES // 3
"""Replacement characters cannot make a string of up to this length too long."""

MAX_VARINT = 0x7FFFFFFF
"""Lengths, counts and tags are Java ints."""

ONE_BYTE = tuple(bytes((value,)) for value in range(128))


@lru_cache(maxsize=4096)
def uuid_from_bytes(data: bytes) -> UUID:
    """A broker sees the same topic ids again and again, and UUID's constructor is slow."""
    return UUID(bytes=data)


def encode_varint(value: int) -> bytes:
    """An unsigned varint: seven bits per byte, lowest first."""
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


def finish_varint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The varint whose first byte is given and is over 127. Raises IndexError at the end of the
    bytes."""
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


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return finish_varint(buffer, position + 1, first)


def encode_bytes_length(size: int, is_flexible: bool) -> bytes:
    """The length prefix of bytes or records."""
    return encode_varint(size + 1) if is_flexible else size.to_bytes(4, "big", signed=True)


def read_bytes_length(buffer: Buffer, position: int, is_flexible: bool) -> tuple[int, int]:
    """The size of bytes or records (-1 for null), and where they start. Raises IndexError at the
    end of the bytes."""
    if is_flexible:
        size, position = buffer[position], position + 1
        if size > 127:
            size, position = finish_varint(buffer, position, size)
        return size - 1, position
    if position + 4 > len(buffer):
        raise IndexError
    return int.from_bytes(buffer[position : position + 4], "big", signed=True), position + 4


def tag_count(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The number of tagged fields. `first` is its first byte."""
    count = first
    if first > 127:
        count, position = finish_varint(buffer, position, first)
    if count > MAX_TAGGED_FIELDS:
        raise DecodeError(f"{count} tagged fields; at most {MAX_TAGGED_FIELDS} are accepted")
    return count, position


def read_tag(buffer: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """A tag, and the start and end of its value."""
    tag, position = read_varint(buffer, position)
    size, position = read_varint(buffer, position)
    if size > end - position:
        raise DecodeError(f"tagged field {tag} claims {size} bytes, {end - position} remain")
    return tag, position, position + size


def skip_tags(buffer: Buffer, position: int, first: int, end: int) -> int:
    """Skips a section of tagged fields that this version does not know."""
    count, position = tag_count(buffer, position, first)
    for _ in range(count):
        _, _, position = read_tag(buffer, position, end)
    return position


def refuse_length(name: str, length: int, remaining: int) -> None:
    """Raises DecodeError for an impossible length."""
    if length < 0:
        raise DecodeError(f"{name} is null or has the negative length {length}")
    raise DecodeError(f"{name} claims length {length}, {remaining} bytes remain")


def refuse_array(name: str, length: int, remaining: int) -> None:
    """Raises DecodeError for an array with an impossible or excessive length."""
    if 0 <= length <= remaining:
        raise DecodeError(f"{name} has {length} elements, which makes too many in one message")
    refuse_length(name, length, remaining)


def check_growth(name: str, text: str) -> None:
    """Replacement characters turn an invalid byte into three. A string that is too long because of
    that could be neither returned nor stored."""
    length = len(text.encode())
    if length > MAX_STRING_BYTES:
        raise DecodeError(f"{name} is not UTF-8 and has {length} bytes with replacement characters")


def part_size(part: RecordPart) -> int:
    if isinstance(part, bytes | bytearray):
        return len(part)
    if isinstance(part, memoryview):
        return part.nbytes
    return part.size_bytes


def record_size(value: RecordPart | list[RecordPart]) -> int:
    """The size in bytes of a `records` field's contents."""
    if isinstance(value, list):
        return sum(map(part_size, value))
    return part_size(value)


def refuse_string(name: str, length: int) -> None:
    raise EncodeError(f"{name} has {length} bytes; a string has at most {MAX_STRING_BYTES}")
