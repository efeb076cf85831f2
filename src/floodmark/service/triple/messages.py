"""PURE: gRPC frames and the protobuf wrappers around Hessian2 values.

`TripleRequestWrapper` is {1: serialization, 2: arguments, 3: their types}, `TripleResponseWrapper`
{1: serialization, 2: value, 3: its type}. All fields are texts or bytes.
"""

from __future__ import annotations

from floodmark.service.hessian import HessianError

HESSIAN = "hessian4"
"""The wrappers' name for Hessian2."""

PREFIX_BYTES = 5
MAX_FIELDS = 1_000
"""A method has at most 255 parameters in Java, and a wrapper two fields for each."""


def grpc_frame(message: bytes) -> bytes:
    return b"\x00" + len(message).to_bytes(4, "big") + message


def read_grpc_frame(body: bytes) -> bytes:
    """The single message of a unary call."""
    if len(body) < PREFIX_BYTES or len(body) - PREFIX_BYTES != int.from_bytes(body[1:5], "big"):
        raise HessianError("the request is not a single complete message")
    if body[0]:
        raise HessianError("compressed messages are not supported")
    return body[PREFIX_BYTES:]


def read_request(message: bytes) -> tuple[list[bytes], list[str]]:
    """Arguments and their types in a TripleRequestWrapper."""
    arguments, types, serialization = [], [], ""
    for number, data in _fields(message):
        if number == 1:
            serialization = data.decode("utf-8", "replace")
        elif number == 2:
            arguments.append(data)
        elif number == 3:
            types.append(data.decode("utf-8", "replace"))
    if serialization not in (HESSIAN, "hessian2"):
        raise HessianError(f"serialization {serialization!r} is not supported")
    return arguments, types


def write_response(value: bytes, java: str) -> bytes:
    """A TripleResponseWrapper."""
    return _field(1, HESSIAN.encode()) + _field(2, value) + _field(3, java.encode())


def _fields(message: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    position = 0
    while position < len(message):
        if len(found) >= MAX_FIELDS:
            raise HessianError(f"more than {MAX_FIELDS} fields in a wrapper")
        tag, position = _varint(message, position)
        if tag & 7 != 2:
            raise HessianError(f"a field of wire type {tag & 7} in a wrapper")
        size, position = _varint(message, position)
        if size > len(message) - position:
            raise HessianError("a field is longer than its message")
        found.append((tag >> 3, message[position : position + size]))
        position += size
    return found


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(message):
            raise HessianError("a wrapper ends inside a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise HessianError("a number in a wrapper is too long")


def _field(number: int, data: bytes) -> bytes:
    size, encoded = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + data
