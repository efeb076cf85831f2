"""PURE: converts results to response frames and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from floodmark.service.dubbo.frames import (
    HEADER,
    HEADER_BYTES,
    HESSIAN2,
    MAGIC,
    MAX_PAYLOAD_BYTES,
    PROTOCOL_VERSION,
    Status,
    frame,
)
from floodmark.service.hessian import Decoder, Encoder, HessianError, JavaClasses, JavaObject
from floodmark.service.hessian.text import write_text
from floodmark.service.hints import Writer

# The first value of a response says what follows; the second row includes attachments.
EXCEPTION, VALUE, NULL = 0, 1, 2
WITH_ATTACHMENTS = 3

_SPACE = bytes(HEADER_BYTES)
_LAST_ATTACHMENT = b"\x05dubbo\x05" + PROTOCOL_VERSION.encode() + b"Z"
_VALUE_START = {False: _SPACE + b"\x91", True: _SPACE + b"\x94"}
_NULL_START = {False: _SPACE + b"\x92", True: _SPACE + b"\x95"}
_EXCEPTION_START = {False: _SPACE + b"\x90", True: _SPACE + b"\x93"}


def result_frame(
    request_id: int,
    value: Any,
    write: Writer,
    classes: JavaClasses,
    attachments: Mapping[str, str] | None,
    has_attachments: bool,
) -> bytearray:
    """A method's result. Raises HessianError if it cannot be encoded or is too large."""
    encoder = Encoder(classes)
    if value is None:
        encoder.out += _NULL_START[has_attachments]
    else:
        encoder.out += _VALUE_START[has_attachments]
        encoder.write_whole(value, write)
    return _finished(encoder, request_id, attachments, has_attachments)


def exception_frame(
    request_id: int,
    thrown: JavaObject,
    classes: JavaClasses,
    attachments: Mapping[str, str] | None,
    has_attachments: bool,
) -> bytearray:
    """What a consumer should throw."""
    encoder = Encoder(classes)
    encoder.out += _EXCEPTION_START[has_attachments]
    encoder.write_whole(thrown)
    return _finished(encoder, request_id, attachments, has_attachments)


def _finished(
    encoder: Encoder,
    request_id: int,
    attachments: Mapping[str, str] | None,
    has_attachments: bool,
) -> bytearray:
    out = encoder.out
    if has_attachments:
        out.append(0x48)
        if attachments:
            for name, text in attachments.items():
                write_text(out, str(name))
                write_text(out, str(text))
        out += _LAST_ATTACHMENT
    size = len(out) - HEADER_BYTES
    if size > MAX_PAYLOAD_BYTES:
        raise HessianError(
            f"Data length too large: {size}, max payload: {MAX_PAYLOAD_BYTES}, return less at once"
        )
    HEADER.pack_into(out, 0, MAGIC, HESSIAN2, Status.OK, request_id, size)
    return out


def error_frame(request_id: int, status: Status, message: str) -> bytes:
    """A failure outside the method, with a text instead of a result."""
    encoder = Encoder()
    encoder.write_text(message[:10_000])
    return frame(HESSIAN2, status, request_id, encoder.take())


class Outcome(NamedTuple):
    """A response's content: a value, or an exception that the method threw."""

    value: Any
    thrown: Any
    attachments: Mapping[str, Any]


def read_outcome(body: bytes, classes: JavaClasses) -> Outcome:
    """Decodes the body of a response with status OK. Raises HessianError."""
    decoder = Decoder(body, classes)
    kind = decoder.read()
    if not isinstance(kind, int) or not 0 <= kind <= NULL + WITH_ATTACHMENTS:
        raise HessianError(f"a response of kind {kind!r}")
    what = kind % WITH_ATTACHMENTS
    value = decoder.read() if what == VALUE else None
    thrown = decoder.read() if what == EXCEPTION else None
    attachments = decoder.read() if kind >= WITH_ATTACHMENTS else {}
    return Outcome(value, thrown, attachments if isinstance(attachments, dict) else {})
