"""PURE: Hessian2, the serialization of Dubbo's messages: values to bytes and back.

Matches Java's hessian-lite, which differs from Hessian's grammar in three places: byte 0x5f is a
double as an int32 of thousandths, string lengths count UTF-16 units, and each surrogate takes three
bytes. A message can never make it instantiate arbitrary classes: a reader gets the classes it may
build.
"""

from collections.abc import Iterable
from typing import Any

from floodmark.service.hessian.classes import JavaClasses, JavaObject
from floodmark.service.hessian.decode import Decoder
from floodmark.service.hessian.encode import Encoder
from floodmark.service.hessian.errors import HessianError

__all__ = [
    "Decoder",
    "Encoder",
    "HessianError",
    "JavaClasses",
    "JavaObject",
    "dumps",
    "loads",
    "read_all",
]


def dumps(value: object, classes: JavaClasses | None = None) -> bytes:
    """Encodes one value."""
    encoder = Encoder(classes)
    encoder.write_whole(value)
    return encoder.take()


def loads(data: bytes, classes: JavaClasses | None = None) -> object:
    """Decodes the value in `data`. Raises an error if bytes remain."""
    decoder = Decoder(data, classes)
    value = decoder.read()
    decoder.expect_end()
    return value


def read_all(messages: Iterable[bytes], classes: JavaClasses | None = None) -> list[Any]:
    """Decodes the value of each message, within the limits of a single one."""
    decoder = Decoder(b"", classes)
    values = []
    for message in messages:
        decoder.begin(message)
        values.append(decoder.read())
    return values
