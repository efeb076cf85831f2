"""Damaged messages: whatever is cut, flipped or lied about, only DecodeError comes out.

Every byte of a message in which every field is set takes its turn, so every length, count and tag
of every version lies at least once. What still decodes must encode again.
"""

from collections.abc import Iterator

import pytest

from floodmark.wire.compiler import decode, encode
from floodmark.wire.schema import DecodeError
from wire_kit.classes import cases
from wire_kit.samples import sample

CASES = cases()

LIES = [
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x0f\x42\x41",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
]
"""Null and negative lengths, just over a million, the longest varints, and one too long."""


def damaged(data: bytes) -> Iterator[bytes]:
    for position in range(len(data)):
        yield data[:position] + data[position + 1 :]
        yield data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        for lie in LIES:
            yield data[:position] + lie + data[position + len(lie) :]


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_a_damaged_message_is_refused_or_read(cls: type, version: int) -> None:
    for data in damaged(encode(sample(cls, version), version)):
        try:
            message = decode(cls, memoryview(data), version)
        except DecodeError:
            continue
        encode(message, version)


@pytest.mark.parametrize(("cls", "version"), CASES)
def test_a_message_cut_anywhere_is_refused(cls: type, version: int) -> None:
    data = memoryview(encode(sample(cls, version), version))
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode(cls, data[:end], version)
