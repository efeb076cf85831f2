"""Encodes values as Hessian2 bytes.

`Encoder.write` uses the value's own type. Where a type hint says more (an int that Java declares as
long), hints.py has writers that call the methods here directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from itertools import chain
from struct import Struct
from struct import error as StructError
from types import MappingProxyType
from typing import Any
from uuid import UUID

from floodmark.service.hessian import java_values as java
from floodmark.service.hessian.classes import Field, JavaClasses, JavaObject
from floodmark.service.hessian.errors import HessianError
from floodmark.service.hessian.exceptions import StackTrace, throwable_of
from floodmark.service.hessian.text import write_text

_INT = Struct(">i").pack
_LONG = Struct(">q").pack
_DOUBLE = Struct(">d").pack
_SHORT = Struct(">h").pack

_BYTES_CHUNK = 0x8000
_NO_CLASSES = JavaClasses()


class Encoded:
    """Already encoded bytes: the class definitions they need, then the value.

    They are valid for a message that starts with these class definitions, and contain no
    references.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Encoder:
    """Writes the values of one message in sequence."""

    __slots__ = ("_classes", "_definitions", "_kept", "_refs", "_types", "defined", "out")

    def __init__(self, classes: JavaClasses | None = None) -> None:
        self.out = bytearray()
        self._classes = classes or _NO_CLASSES
        self._refs: dict[Any, int] = {}
        self._kept: list[Any] = []
        self._types: dict[str, int] = {}
        self._definitions: dict[Any, int] = {}
        self.defined: list[tuple[Any, str, Any]] = []
        """The class definitions this encoder has written: key, name and fields."""

    def take(self) -> bytes:
        return bytes(self.out)

    def write_whole(self, value: Any, write: Callable[[Encoder, Any], None] | None = None) -> None:
        """Appends a value from a caller. Raises HessianError if it cannot be encoded."""
        try:
            (write or Encoder.write)(self, value)
        except HessianError:
            raise
        except RecursionError:
            raise HessianError("values are nested too deeply") from None
        except (AttributeError, OverflowError, StructError, TypeError, ValueError) as error:
            # For example a text where the hint says int.
            raise HessianError(f"the value does not match its type hint: {error}") from error

    def write(self, value: Any) -> None:
        """Appends a value by its own type."""
        writer = _WRITERS.get(type(value))
        if writer is not None:
            writer(self, value)
        else:
            self._write_other(value)

    # Numbers

    def write_int(self, value: int) -> None:
        """A Java int; too large a number is an error."""
        out = self.out
        if -16 <= value <= 47:
            out.append(0x90 + value)
        elif -2048 <= value <= 2047:
            out.append(0xC8 + (value >> 8))
            out.append(value & 0xFF)
        elif -262144 <= value <= 262143:
            out.append(0xD4 + (value >> 16))
            out += (value & 0xFFFF).to_bytes(2, "big")
        elif -0x80000000 <= value <= 0x7FFFFFFF:
            out.append(0x49)
            out += _INT(value)
        else:
            raise HessianError(f"{_short(value)} does not fit into a Java int")

    def write_long(self, value: int) -> None:
        """A Java long; too large a number is an error."""
        out = self.out
        if -8 <= value <= 15:
            out.append(0xE0 + value)
        elif -2048 <= value <= 2047:
            out.append(0xF8 + (value >> 8))
            out.append(value & 0xFF)
        elif -262144 <= value <= 262143:
            out.append(0x3C + (value >> 16))
            out += (value & 0xFFFF).to_bytes(2, "big")
        elif -0x80000000 <= value <= 0x7FFFFFFF:
            out.append(0x59)
            out += _INT(value)
        elif -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
            out.append(0x4C)
            out += _LONG(value)
        else:
            raise HessianError(f"{_short(value)} does not fit into a Java long")

    def write_double(self, value: float) -> None:
        out = self.out
        if value == 0.0 and str(value)[0] != "-":
            out.append(0x5B)
        elif value == 1.0:
            out.append(0x5C)
        elif -0x8000 <= value < 0x8000 and value == int(value) and value != 0.0:
            whole = int(value)
            if -0x80 <= whole < 0x80:
                out.append(0x5D)
                out.append(whole & 0xFF)
            else:
                out.append(0x5E)
                out += _SHORT(whole)
        else:
            # Never 0x5f: its meaning differs between implementations.
            out.append(0x44)
            out += _DOUBLE(value)

    def write_any_int(self, value: int) -> None:
        """The smallest of int, long and BigInteger."""
        if -0x80000000 <= value <= 0x7FFFFFFF:
            self.write_int(value)
        elif -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
            self.write_long(value)
        else:
            self.write_big_integer(value)

    def write_big_integer(self, value: int) -> None:
        self._begin_object(java.BIG_INTEGER, ("signum", "mag"))
        self.write_int((value > 0) - (value < 0))
        self.write_array("[int", java.magnitude_words(value), Encoder.write_int)

    # Single values

    def write_none(self, _value: Any = None) -> None:
        self.out.append(0x4E)

    def write_bool(self, value: bool) -> None:
        self.out.append(0x54 if value else 0x46)

    def write_text(self, value: str) -> None:
        write_text(self.out, value)

    def write_bytes(self, value: bytes) -> None:
        out, size, position = self.out, len(value), 0
        while size - position > _BYTES_CHUNK:
            out.append(0x41)
            out += _BYTES_CHUNK.to_bytes(2, "big")
            out += value[position : position + _BYTES_CHUNK]
            position += _BYTES_CHUNK
        rest = size - position
        if rest < 16:
            out.append(0x20 + rest)
        elif rest < 1024:
            out.append(0x34 + (rest >> 8))
            out.append(rest & 0xFF)
        else:
            out.append(0x42)
            out += rest.to_bytes(2, "big")
        out += value[position:]

    def write_date(self, value: datetime) -> None:
        """A java.util.Date: milliseconds since the epoch."""
        self.out.append(0x4A)
        self.out += _LONG(java.milliseconds_of(value))

    def write_decimal(self, value: Decimal) -> None:
        if not value.is_finite():
            raise HessianError(f"{value} is not a BigDecimal")
        self._begin_object(java.BIG_DECIMAL, ("value",))
        self.write_text(str(value))

    def write_uuid(self, value: UUID) -> None:
        self._begin_object(java.UUID_CLASS, ("value",))
        self.write_text(str(value))

    def write_local_date(self, value: date) -> None:
        self._begin_object(java.LOCAL_DATE, ("year", "month", "day"))
        for number in (value.year, value.month, value.day):
            self.write_int(number)

    def write_local_time(self, value: time) -> None:
        self._begin_object(java.LOCAL_TIME, ("hour", "minute", "second", "nano"))
        for number in (value.hour, value.minute, value.second, value.microsecond * 1000):
            self.write_int(number)

    def write_duration(self, value: timedelta) -> None:
        self._begin_object(java.DURATION, ("seconds", "nanos"))
        self.write_long(value.days * 86400 + value.seconds)
        self.write_int(value.microseconds * 1000)

    def write_enum(self, value: Enum) -> None:
        name = self._classes.name_of(type(value))
        if name is None:
            raise HessianError(f"{type(value)!r} has no Java class: see @java_class")
        if not self._refer(value):
            self._write_definition(type(value), name, ("name",))
            self.write_text(value.name)

    # Containers

    def write_list(self, value: Any, write: Callable[[Encoder, Any], None] | None = None) -> None:
        """An untyped list, which Java reads as ArrayList."""
        write = write or Encoder.write
        if self._refer(value, write):
            return
        self.out += list_start(len(value))
        self._write_items(value, write)

    def write_array(
        self, type_name: str, value: Any, write: Callable[[Encoder, Any], None] | None = None
    ) -> None:
        """A typed list: `[int` for int[], or the name of a collection."""
        write = write or Encoder.write
        if self._refer(value, (type_name, write)):
            return
        size = len(value)
        if size < 8:
            self.out.append(0x70 + size)
            self._write_type(type_name)
        else:
            self.out.append(0x56)
            self._write_type(type_name)
            self.write_int(size)
        self._write_items(value, write)

    def _write_items(self, value: Any, write: Callable[[Encoder, Any], None]) -> None:
        for item in value:
            write(self, item)

    def write_map(
        self,
        value: Mapping[Any, Any],
        write_key: Callable[[Encoder, Any], None] | None = None,
        write_value: Callable[[Encoder, Any], None] | None = None,
    ) -> None:
        """An untyped map, which Java reads as HashMap."""
        write_key, write_value = write_key or Encoder.write, write_value or Encoder.write
        if self._refer(value, (write_key, write_value)):
            return
        self.out.append(0x48)
        for key, item in value.items():
            write_key(self, key)
            write_value(self, item)
        self.out.append(0x5A)

    def write_object(self, value: Any) -> None:
        """A dataclass that has a Java class."""
        if self._refer(value):
            return
        cls = type(value)
        name = self._classes.name_of(cls)
        if name is None:
            raise HessianError(f"{cls!r} has no Java class: see @java_class")
        fields = self._classes.fields_of(cls)
        self._write_definition(cls, name, fields)
        for field in fields:
            item = getattr(value, field.name)
            if field.write is None:
                self.write(item)
            else:
                field.write(self, item)

    def write_java_object(self, value: JavaObject) -> None:
        if not self._refer(value):
            self._write_fields(value)

    def _write_fields(self, value: JavaObject) -> None:
        names = tuple(value.fields)
        self._write_definition((value.java_class, names), value.java_class, names)
        for item in value.fields.values():
            self.write(item)

    def write_encoded(self, value: Encoded) -> None:
        if self._definitions or self._refs:
            raise HessianError("encoded values must come first in their message")
        self.out += value.data

    def _write_other(self, value: Any) -> None:
        cls = type(value)
        if self._classes.name_of(cls) is not None:
            if isinstance(value, Enum):
                self.write_enum(value)
            elif isinstance(value, BaseException):
                self.write_exception(value)
            else:
                self.write_object(value)
            return
        for base, writer in _FALLBACKS:
            if isinstance(value, base):
                writer(self, value)
                return
        raise HessianError(f"{cls.__module__}.{cls.__qualname__} cannot be encoded in Hessian2")

    def write_exception(self, value: BaseException) -> None:
        """A throwable with the traceback's lines as its stack trace."""
        if not self._refer(value):
            self._write_fields(throwable_of(value, self._classes))

    # References, types, definitions

    def _refer(self, value: Any, kind: Any = None) -> bool:
        """Writes a reference if the message already has this object. Otherwise counts it.

        A container counts once per `kind`: the same Python list may be an int[] in one field and
        a List in another.
        """
        refs = self._refs
        key = id(value) if kind is None else (id(value), kind)
        known = refs.get(key)
        if known is None:
            refs[key] = len(refs)
            self._kept.append(value)  # an id is unique only while its object lives
            return False
        self.out.append(0x51)
        self.write_int(known)
        return True

    def _begin_object(self, name: str, fields: tuple[str, ...]) -> None:
        """An object of a Java value class. It counts, but nothing refers to it."""
        marker = object()
        self._refs[id(marker)] = len(self._refs)
        self._kept.append(marker)
        self._write_definition(name, name, fields)

    def _write_definition(
        self, key: Any, name: str, fields: tuple[str, ...] | tuple[Field, ...]
    ) -> None:
        index = self._definitions.get(key)
        if index is None:
            index = self._definitions[key] = len(self._definitions)
            self.defined.append((key, name, fields))
            self.write_class(name, fields)
        if index < 16:
            self.out.append(0x60 + index)
        else:
            self.out.append(0x4F)
            self.write_int(index)

    def write_class(self, name: str, fields: tuple[str, ...] | tuple[Field, ...]) -> None:
        """A class definition, to which objects refer by number."""
        self.out.append(0x43)
        write_text(self.out, name)
        self.write_int(len(fields))
        for field in fields:
            write_text(self.out, field if isinstance(field, str) else field.java_name)

    def take_definitions(self, definitions: dict[Any, int]) -> None:
        """Counts these classes as already defined, with their numbers; see rows.py."""
        self._definitions = definitions

    def _write_type(self, name: str) -> None:
        index = self._types.get(name)
        if index is None:
            self._types[name] = len(self._types)
            write_text(self.out, name)
        else:
            self.write_int(index)


@lru_cache(maxsize=1024)
def list_start(size: int) -> bytes:
    """The bytes before the items of an untyped list."""
    if size < 8:
        return bytes([0x78 + size])
    encoder = Encoder()
    encoder.out.append(0x58)
    encoder.write_int(size)
    return encoder.take()


def _short(value: int) -> str:
    return str(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"


def _write_set(encoder: Encoder, value: Any) -> None:
    encoder.write_array("java.util.HashSet", value)


def _write_stack_trace(encoder: Encoder, value: StackTrace) -> None:
    encoder.write_array(f"[{java.STACK_TRACE_ELEMENT}", value)


Writer = Callable[[Encoder, Any], None]

_WRITERS: dict[type, Writer] = {
    type(None): Encoder.write_none,
    bool: Encoder.write_bool,
    int: Encoder.write_any_int,
    float: Encoder.write_double,
    str: Encoder.write_text,
    bytes: Encoder.write_bytes,
    list: Encoder.write_list,
    tuple: Encoder.write_list,
    dict: Encoder.write_map,
    set: _write_set,
    frozenset: _write_set,
    datetime: Encoder.write_date,
    date: Encoder.write_local_date,
    time: Encoder.write_local_time,
    timedelta: Encoder.write_duration,
    Decimal: Encoder.write_decimal,
    UUID: Encoder.write_uuid,
    JavaObject: Encoder.write_java_object,
    Encoded: Encoder.write_encoded,
    StackTrace: _write_stack_trace,
    bytearray: lambda encoder, value: encoder.write_bytes(bytes(value)),
    memoryview: lambda encoder, value: encoder.write_bytes(bytes(value)),
}

# For subclasses, such as defaultdict or namedtuples.
_FALLBACKS: tuple[tuple[type | tuple[type, ...], Writer], ...] = tuple(
    chain(
        ((BaseException, Encoder.write_exception),),
        ((Enum, Encoder.write_enum),),
        ((cls, _WRITERS[cls]) for cls in (bool, int, float, str, bytes, list, tuple, dict)),
        ((cls, _WRITERS[cls]) for cls in (set, frozenset, datetime, date, Decimal)),
        ((MappingProxyType, Encoder.write_map),),
    )
)
