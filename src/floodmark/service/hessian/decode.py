"""Decodes Hessian2 bytes. Used by the Dubbo protocol's requests and responses.

Every read is bounded by the available bytes; limits.py bounds depth and the number of containers.
References are bounded too: the items behind one count again, because code that walks the value
meets them again. Otherwise a few bytes could stand for billions of items.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from struct import Struct
from struct import error as StructError
from typing import Any

from floodmark.service.hessian.classes import JavaClasses, JavaObject, Shape
from floodmark.service.hessian.errors import HessianError
from floodmark.service.hessian.java_values import BUILD_ERRORS, BUILDERS, moment_of
from floodmark.service.hessian.limits import (
    MAX_CLASSES,
    MAX_COLLISIONS,
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_ITEMS,
    Collisions,
)
from floodmark.service.hessian.text import joined, read_units

_INT = Struct(">i").unpack_from
_LONG = Struct(">q").unpack_from
_DOUBLE = Struct(">d").unpack_from
_SHORT = Struct(">h").unpack_from
_LENGTH = Struct(">H").unpack_from
_BYTE = Struct(">b").unpack_from

_END = 0x5A
_NO_CLASSES = JavaClasses()


class _Definition:
    """A class definition of this message."""

    __slots__ = ("build", "fields", "name", "shape")

    def __init__(self, name: str, fields: tuple[str, ...], classes: JavaClasses) -> None:
        self.name = name
        self.fields = fields
        self.shape = classes.shape(name, fields)
        self.build = BUILDERS.get(name) or _enum_builder(classes.class_of(name))


def _enum_builder(cls: type | None) -> Callable[[Any], Any] | None:
    if cls is None or not issubclass(cls, Enum):
        return None
    return lambda fields: cls[fields["name"]]


class Decoder:
    """Reads the values of a message in sequence."""

    __slots__ = (
        "_classes",
        "_collisions_left",
        "_containers",
        "_data",
        "_definitions",
        "_depth",
        "_items_left",
        "_open_object",
        "_pos",
        "_referred_left",
        "_refs",
        "_sizes",
        "_types",
        "_walked",
    )

    def __init__(self, data: bytes, classes: JavaClasses | None = None, position: int = 0) -> None:
        self._classes = classes or _NO_CLASSES
        self._containers = 0
        self._items_left = MAX_ITEMS
        self._referred_left = MAX_ITEMS
        self._collisions_left = MAX_COLLISIONS
        self.begin(data, position)

    def begin(self, data: bytes, position: int = 0) -> None:
        """Turns to another message. The limits hold for all of them together."""
        self._data = data
        self._pos = position
        self._refs: list[Any] = []
        self._types: list[str] = []
        self._definitions: list[_Definition] = []
        self._depth = 0
        self._walked = 0
        """Containers, items and fields so far, including those behind references."""
        self._sizes: list[int] = []
        """How much was walked inside each of `_refs`. While one is being read: ~ of the count at
        its start."""
        self._open_object = -1
        """The object being read, by its index in `_refs`."""

    @property
    def position(self) -> int:
        return self._pos

    def read(self) -> Any:
        """The next value."""
        try:
            return self._read()
        except (IndexError, StructError):
            raise HessianError("the message ends inside a value") from None
        except RecursionError:
            raise HessianError("values are nested too deeply") from None
        except (ArithmeticError, ValueError) as error:
            raise HessianError(f"a value does not fit its field: {error}") from None

    def read_text(self) -> str:
        """The next value, which must be a string. As in Dubbo, null counts as empty."""
        value = self.read()
        if value is None:
            return ""
        if type(value) is not str:
            raise HessianError(f"expected a string, not {type(value).__name__}")
        return value

    def expect_end(self) -> None:
        if self._pos != len(self._data):
            raise HessianError(f"{len(self._data) - self._pos} bytes are left after the value")

    def _read(self) -> Any:
        code = self._data[self._pos]
        self._pos += 1
        return _READERS[code](self, code)

    # Numbers

    def _int(self) -> int:
        """A required int: a length, a reference or an index."""
        value = self._read()
        if type(value) is not int:
            raise HessianError("expected a number")
        return value

    def _small_int(self, code: int) -> int:
        return code - 0x90

    def _int_2(self, code: int) -> int:
        value = ((code - 0xC8) << 8) + self._data[self._pos]
        self._pos += 1
        return value

    def _int_3(self, code: int) -> int:
        value = ((code - 0xD4) << 16) + _LENGTH(self._data, self._pos)[0]
        self._pos += 2
        return int(value)

    def _int_5(self, _code: int) -> int:
        (value,) = _INT(self._data, self._pos)
        self._pos += 4
        return int(value)

    def _small_long(self, code: int) -> int:
        return code - 0xE0

    def _long_2(self, code: int) -> int:
        value = ((code - 0xF8) << 8) + self._data[self._pos]
        self._pos += 1
        return value

    def _long_3(self, code: int) -> int:
        value = ((code - 0x3C) << 16) + _LENGTH(self._data, self._pos)[0]
        self._pos += 2
        return int(value)

    def _long_9(self, _code: int) -> int:
        (value,) = _LONG(self._data, self._pos)
        self._pos += 8
        return int(value)

    def _double_byte(self, _code: int) -> float:
        (value,) = _BYTE(self._data, self._pos)
        self._pos += 1
        return float(value)

    def _double_short(self, _code: int) -> float:
        (value,) = _SHORT(self._data, self._pos)
        self._pos += 2
        return float(value)

    def _double_thousandths(self, code: int) -> float:
        return 0.001 * self._int_5(code)  # bit for bit the same product as in Java

    def _double_9(self, _code: int) -> float:
        (value,) = _DOUBLE(self._data, self._pos)
        self._pos += 8
        return float(value)

    def _date(self, code: int) -> Any:
        return self._moment(self._long_9(code))

    def _date_minutes(self, code: int) -> Any:
        return self._moment(self._int_5(code) * 60_000)

    def _moment(self, milliseconds: int) -> Any:
        try:
            return moment_of(milliseconds)
        except OverflowError:
            raise HessianError(f"a date is out of range: {milliseconds} ms") from None

    # Text and bytes

    def _short_text(self, code: int) -> str:
        start = self._pos
        end = start + code
        raw = self._data[start:end]
        if raw.isascii() and len(raw) == code:
            self._pos = end
            return raw.decode()
        text, self._pos = read_units(self._data, start, code)
        return joined(text)

    def _medium_text(self, code: int) -> str:
        units = ((code - 0x30) << 8) + self._data[self._pos]
        text, self._pos = read_units(self._data, self._pos + 1, units)
        return joined(text)

    def _long_text(self, code: int) -> str:
        pieces = []
        while code == 0x52:
            pieces.append(self._text_chunk())
            code = self._data[self._pos]
            self._pos += 1
        if code == 0x53:
            pieces.append(self._text_chunk())
        elif code < 0x20:
            pieces.append(self._short_text(code))
        elif 0x30 <= code <= 0x33:
            pieces.append(self._medium_text(code))
        else:
            raise HessianError(f"byte 0x{code:02x} inside a string")
        return joined("".join(pieces))

    def _text_chunk(self) -> str:
        (units,) = _LENGTH(self._data, self._pos)
        text, self._pos = read_units(self._data, self._pos + 2, units)
        return text

    def _bytes(self, size: int) -> bytes:
        end = self._pos + size
        value = self._data[self._pos : end]
        if len(value) != size:
            raise HessianError("bytes are longer than their message")
        self._pos = end
        return value

    def _short_bytes(self, code: int) -> bytes:
        return self._bytes(code - 0x20)

    def _medium_bytes(self, code: int) -> bytes:
        size = ((code - 0x34) << 8) + self._data[self._pos]
        self._pos += 1
        return self._bytes(size)

    def _long_bytes(self, code: int) -> bytes:
        pieces = []
        while code == 0x41:
            pieces.append(self._bytes_chunk())
            code = self._data[self._pos]
            self._pos += 1
        if code == 0x42:
            pieces.append(self._bytes_chunk())
        elif 0x20 <= code <= 0x2F:
            pieces.append(self._short_bytes(code))
        elif 0x34 <= code <= 0x37:
            pieces.append(self._medium_bytes(code))
        else:
            raise HessianError(f"byte 0x{code:02x} inside binary data")
        return b"".join(pieces)

    def _bytes_chunk(self) -> bytes:
        (size,) = _LENGTH(self._data, self._pos)
        self._pos += 2
        return self._bytes(size)

    # Containers

    def _open(self, value: Any) -> int:
        """Starts a container. Returns the number by which later values refer to it."""
        index = len(self._refs)
        self._refs.append(value)
        self._sizes.append(~self._walked)
        self._walked += 1
        self._depth += 1
        self._containers += 1
        if self._depth > MAX_DEPTH:
            raise HessianError(f"values are nested more than {MAX_DEPTH} deep")
        if self._containers > MAX_CONTAINERS:
            raise HessianError(f"more than {MAX_CONTAINERS} lists, maps and objects")
        return index

    def _close(self, index: int) -> None:
        self._depth -= 1
        self._sizes[index] = self._walked - ~self._sizes[index]

    def _count(self, items: int) -> None:
        self._walked += items
        self._items_left -= items
        if self._items_left < 0:
            raise HessianError(f"more than {MAX_ITEMS} items")

    def _type(self) -> str:
        value = self._read()
        if type(value) is str:
            self._types.append(value)
            return value
        if type(value) is int and 0 <= value < len(self._types):
            return self._types[value]
        raise HessianError("expected a type")

    def _list_until_end(self, code: int) -> list[Any]:
        if code == 0x55:
            self._type()
        items: list[Any] = []
        index = self._open(items)
        while self._data[self._pos] != _END:
            self._count(1)
            items.append(self._read())
        self._pos += 1
        self._close(index)
        return items

    def _list_of_length(self, code: int) -> list[Any]:
        if code == 0x56:
            self._type()
        return self._items(self._int())

    def _short_list(self, code: int) -> list[Any]:
        if code < 0x78:
            self._type()
        return self._items(code & 7)

    def _items(self, size: int) -> list[Any]:
        if not 0 <= size <= len(self._data) - self._pos:
            raise HessianError(f"a list of {size} is longer than its message")
        items: list[Any] = []
        index = self._open(items)
        self._count(size)
        append, read = items.append, self._read
        for _ in range(size):
            append(read())
        self._close(index)
        return items

    def _typed_map(self, code: int) -> Any:
        name = self._type()
        if name in BUILDERS or self._classes.class_of(name) is not None:
            return self._object_as_map(name)
        return self._map(code)

    def _object_as_map(self, name: str) -> Any:
        """Older writers send objects as typed maps."""
        index = len(self._refs)
        fields = self._map(0)
        definition = _Definition(name, tuple(map(str, fields)), self._classes)
        if definition.build is not None:
            value = self._refs[index] = _built(definition, fields)
        elif definition.shape is not None:
            value = self._refs[index] = _of_shape(definition.shape, list(fields.values()))
        return value

    def _map(self, _code: int) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        index = self._open(items)
        read = self._read
        collisions: Collisions | None = None
        while self._data[self._pos] != _END:
            self._count(1)
            key = read()
            try:
                if type(key) is not str:
                    collisions = collisions or Collisions()
                    if collisions.is_one(key):
                        self._count_collision()
                items[key] = read()
            except TypeError:
                raise HessianError(f"a map has a {type(key).__name__} as key") from None
        self._pos += 1
        self._close(index)
        return items

    def _count_collision(self) -> None:
        self._collisions_left -= 1
        if self._collisions_left < 0:
            raise HessianError(f"more than {MAX_COLLISIONS} keys with the hash of another")

    def _definition(self, _code: int) -> Any:
        while True:
            name = self._read()
            count = self._int()
            if type(name) is not str or not 0 <= count <= len(self._data) - self._pos:
                raise HessianError("a class definition is broken")
            fields = tuple([self._field_name() for _ in range(count)])
            self._definitions.append(_Definition(name, fields, self._classes))
            if len(self._definitions) > MAX_CLASSES:
                raise HessianError(f"more than {MAX_CLASSES} class definitions")
            code = self._data[self._pos]
            if code != 0x43:
                return self._read()
            self._pos += 1

    def _field_name(self) -> str:
        name = self._read()
        if type(name) is not str:
            raise HessianError("a field name is not a string")
        return name

    def _object(self, _code: int) -> Any:
        return self._object_of(self._int())

    def _short_object(self, code: int) -> Any:
        return self._object_of(code - 0x60)

    def _object_of(self, index: int) -> Any:
        if not 0 <= index < len(self._definitions):
            raise HessianError(f"there is no class definition {index}")
        definition = self._definitions[index]
        outer, self._open_object = self._open_object, len(self._refs)
        opened = self._open(None)
        self._walked += len(definition.fields)
        if definition.build is not None:
            value = self._value_object(definition, opened)
        elif definition.shape is not None:
            value = self._known_object(definition.shape, opened)
        else:
            value = self._java_object(definition, opened)
        self._close(opened)
        self._open_object = outer
        return value

    def _value_object(self, definition: _Definition, opened: int) -> Any:
        read = self._read
        fields = {name: read() for name in definition.fields}
        value = self._refs[opened] = _built(definition, fields)
        return value

    def _known_object(self, shape: Shape, opened: int) -> Any:
        cls = shape.cls
        value: Any = shape.new(cls)
        self._refs[opened] = value
        read = self._read
        assign = object.__setattr__
        for setter in shape.setters:
            item = read()
            if setter is not None:
                name, convert = setter
                assign(value, name, item if convert is None else convert(item))
        for name, default in shape.missing:
            assign(value, name, default())
        return value

    def _java_object(self, definition: _Definition, opened: int) -> JavaObject:
        fields: dict[str, Any] = {}
        value = JavaObject(definition.name, fields)
        self._refs[opened] = value
        read = self._read
        for name in definition.fields:
            fields[name] = read()
        return value

    def _ref(self, _code: int) -> Any:
        index = self._int()
        if not 0 <= index < len(self._refs):
            raise HessianError(f"there is no value {index} to refer to")
        size = self._sizes[index]
        if size < 0:
            size = self._walked - ~size
            if index > self._open_object:
                # Objects may be cyclic. Code that walks lists and maps would have to watch out for
                # that, so they may not.
                raise HessianError("a list or map contains itself")
        self._walked += size
        self._referred_left -= size
        if self._referred_left < 0:
            raise HessianError(f"references to more than {MAX_ITEMS} items")
        return self._refs[index]

    def _unknown(self, code: int) -> Any:
        raise HessianError(f"byte 0x{code:02x} does not start a value")


def _built(definition: _Definition, fields: dict[str, Any]) -> Any:
    assert definition.build is not None
    try:
        return definition.build(fields)
    except BUILD_ERRORS as error:
        raise HessianError(f"an object of {definition.name} is broken: {error}") from error


def _of_shape(shape: Shape, values: list[Any]) -> Any:
    value: Any = shape.new(shape.cls)
    for setter, item in zip(shape.setters, values, strict=True):
        if setter is not None:
            name, convert = setter
            object.__setattr__(value, name, item if convert is None else convert(item))
    for name, default in shape.missing:
        object.__setattr__(value, name, default())
    return value


Reader = Callable[[Decoder, int], Any]


def _readers() -> list[Reader]:
    d = Decoder
    ranges: list[tuple[int, int, Reader]] = [
        (0x00, 0x1F, d._short_text),
        (0x20, 0x2F, d._short_bytes),
        (0x30, 0x33, d._medium_text),
        (0x34, 0x37, d._medium_bytes),
        (0x38, 0x3F, d._long_3),
        (0x41, 0x42, d._long_bytes),
        (0x43, 0x43, d._definition),
        (0x44, 0x44, d._double_9),
        (0x46, 0x46, lambda _d, _c: False),
        (0x48, 0x48, d._map),
        (0x49, 0x49, d._int_5),
        (0x4A, 0x4A, d._date),
        (0x4B, 0x4B, d._date_minutes),
        (0x4C, 0x4C, d._long_9),
        (0x4D, 0x4D, d._typed_map),
        (0x4E, 0x4E, lambda _d, _c: None),
        (0x4F, 0x4F, d._object),
        (0x51, 0x51, d._ref),
        (0x52, 0x53, d._long_text),
        (0x54, 0x54, lambda _d, _c: True),
        (0x55, 0x55, d._list_until_end),
        (0x56, 0x56, d._list_of_length),
        (0x57, 0x57, d._list_until_end),
        (0x58, 0x58, d._list_of_length),
        (0x59, 0x59, d._int_5),
        (0x5B, 0x5B, lambda _d, _c: 0.0),
        (0x5C, 0x5C, lambda _d, _c: 1.0),
        (0x5D, 0x5D, d._double_byte),
        (0x5E, 0x5E, d._double_short),
        (0x5F, 0x5F, d._double_thousandths),
        (0x60, 0x6F, d._short_object),
        (0x70, 0x7F, d._short_list),
        (0x80, 0xBF, d._small_int),
        (0xC0, 0xCF, d._int_2),
        (0xD0, 0xD7, d._int_3),
        (0xD8, 0xEF, d._small_long),
        (0xF0, 0xFF, d._long_2),
    ]
    table: list[Reader] = [d._unknown] * 256
    for first, last, reader in ranges:
        table[first : last + 1] = [reader] * (last - first + 1)
    return table


_READERS = _readers()
