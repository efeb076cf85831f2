"""Encoders and decoders for messages, generated on first use and stored with the class.

Called by everything that reads or writes messages: the dispatcher, the client, the coordinators.
Each call runs generated code (see `encode_source.py`, `decode_source.py`). Definitions are
interpreted only while that code is generated.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from floodmark.wire.decode_source import DecodeSource
from floodmark.wire.encode_source import EncodeSource
from floodmark.wire.schema import Buffer, DecodeError, UnsupportedVersion, schema_of

T = TypeVar("T")

Encoder: TypeAlias = Callable[[Any, list[Any]], None]
Decoder: TypeAlias = Callable[..., tuple[T, int]]
"""Takes a buffer, the offset of the message and, if not MAX_ENTRIES, how many entries all of its
arrays may have together."""


def encoder(cls: type, version: int) -> Encoder:
    """A function that appends the bytes of a message to a list of parts."""
    encoders = schema_of(cls).encoders
    function = encoders.get(version)
    if function is None:
        function = encoders[version] = _compile(EncodeSource, "encode", cls, version)
    return function


def decoder(cls: type[T], version: int) -> Decoder[T]:
    """A function that reads a message at an offset and returns it with the offset after it."""
    decoders = schema_of(cls).decoders
    function = decoders.get(version)
    if function is None:
        function = decoders[version] = _compile(DecodeSource, "decode", cls, version)
    return function


def encode_parts(message: Any, version: int, parts: list[Any]) -> None:
    """Appends the bytes of a message. The contents of `records` fields are not copied."""
    encoder(type(message), version)(message, parts)


def encode(message: Any, version: int) -> bytes:
    parts: list[bytes] = []
    encoder(type(message), version)(message, parts)
    return b"".join(parts)


def decode(cls: type[T], buffer: Buffer, version: int, offset: int = 0) -> T:
    """The message at `offset`. As in Kafka, further bytes are ignored."""
    return decoder(cls, version)(buffer, offset)[0]


def decode_exact(cls: type[T], buffer: Buffer, version: int, offset: int = 0) -> T:
    """The message that fills the buffer from `offset` to its end."""
    decoded, end = decoder(cls, version)(buffer, offset)
    if end != len(buffer):
        raise DecodeError(f"{len(buffer) - end} bytes are left over after {cls.__name__}")
    return decoded


def _compile(
    source_class: type[EncodeSource] | type[DecodeSource], name: str, cls: type, version: int
) -> Any:
    schema = schema_of(cls)
    if not schema.versions[0] <= version <= schema.versions[1]:
        raise UnsupportedVersion(cls, version)
    source = source_class(version, schema.is_flexible(version))
    text = source.write(cls)
    exec(compile(text, f"<{name} {cls.__name__} v{version}>", "exec"), source.namespace)
    return source.namespace[name]
