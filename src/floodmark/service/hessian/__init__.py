"""PURE: Hessian2, the serialisation of Dubbo's messages: values to bytes and back.

Written for Java's hessian-lite, which differs from Hessian's grammar in three places: byte 0x5f
is a double as an int32 of thousandths, lengths of strings count UTF-16 units, and each surrogate
takes three bytes. Nothing here instantiates a class because a message names it: a reader is given
the classes that it may build.
"""

from floodmark.service.hessian.classes import JavaClasses, JavaObject
from floodmark.service.hessian.decode import Decoder
from floodmark.service.hessian.encode import Encoder
from floodmark.service.hessian.errors import HessianError

__all__ = ["Decoder", "Encoder", "HessianError", "JavaClasses", "JavaObject", "dumps", "loads"]


def dumps(value: object, classes: JavaClasses | None = None) -> bytes:
    """One value as bytes."""
    encoder = Encoder(classes)
    encoder.write_whole(value)
    return encoder.take()


def loads(data: bytes, classes: JavaClasses | None = None) -> object:
    """The value that `data` holds; bytes after it are an error."""
    decoder = Decoder(data, classes)
    value = decoder.read()
    decoder.expect_end()
    return value
