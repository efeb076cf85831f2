"""Type hints as Java types: their Java names, encoding, and conversion of received values.

interface.py looks up each parameter and result once, when a service or consumer is created. Calls
use these functions without looking at a hint again.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from floodmark.service.errors import InterfaceError
from floodmark.service.hessian import Encoder, HessianError, JavaClasses, JavaObject
from floodmark.service.hessian.classes import Convert, Field, java_name
from floodmark.service.hessian.limits import MAX_COLLISIONS, Collisions
from floodmark.service.types import Java

Writer = Callable[[Encoder, Any], None]


class HintedType(NamedTuple):
    """A type hint, as Java sees it."""

    java: str
    """As in Java sources, including type arguments."""
    boxed: str
    """The same as an object: for type arguments, or where null is allowed."""
    write: Writer
    convert: Convert
    """Converts a received value to the hinted type. Raises HessianError if that is impossible."""

    @property
    def erased(self) -> str:
        """Without type arguments, as in descriptors and metadata."""
        return self.java.partition("<")[0] + ("[]" if self.java.endswith(">[]") else "")


class Hints:
    """Resolves the hints of one service and registers the classes they name."""

    def __init__(self, classes: JavaClasses, package: str) -> None:
        """Classes without `@java_class` go into `package`."""
        self.classes = classes
        self._package = package

    def of(self, hint: Any) -> HintedType:
        origin = get_origin(hint)
        if origin is Annotated:
            return self._annotated(hint)
        if origin is Union or origin is types.UnionType:
            return self._union(hint)
        if origin is not None:
            return self._generic(origin, get_args(hint))
        if hint in _PLAIN:
            return _PLAIN[hint]
        if isinstance(hint, type):
            return self._class(hint)
        raise InterfaceError(
            f"{hint!r} has no Java type: docs/services.md lists the supported types"
        )

    def _annotated(self, hint: Any) -> HintedType:
        inner, *notes = get_args(hint)
        java = next((note.name for note in notes if isinstance(note, Java)), None)
        if java is None:
            return self.of(inner)
        if java in _WIDTHS:
            return _WIDTHS[java]
        if java.endswith("[]"):
            (item,) = get_args(inner) or (Any,)
            return _array(java, _WIDTHS.get(java[:-2]) or self.of(item))
        return self.of(inner)._replace(java=java, boxed=java)

    def _union(self, hint: Any) -> HintedType:
        members = [item for item in get_args(hint) if item is not types.NoneType]
        if len(members) != 1:
            raise InterfaceError(f"{hint!r}: a Java type is a single type, optionally nullable")
        inner = self.of(members[0])
        return inner._replace(
            java=inner.boxed, write=_item_writer(inner), convert=_optional(inner.convert)
        )

    def _generic(self, origin: Any, arguments: tuple[Any, ...]) -> HintedType:
        inner = [self.of(item) for item in arguments if item is not Ellipsis]
        if origin in (list, Sequence):
            return _list("java.util.List", inner[0], list)
        if origin is tuple and arguments[1:] == (Ellipsis,):
            return _list("java.util.List", inner[0], tuple)
        if origin in (set, frozenset):
            return _set(inner[0], origin)
        if origin in (dict, Mapping):
            return _map(*inner)
        raise InterfaceError(f"{origin!r} has no Java type")

    def _class(self, cls: type) -> HintedType:
        if issubclass(cls, Enum):
            self._register(cls, ())
            name = self.classes.name_of(cls) or ""
            return HintedType(name, name, _nullable(Encoder.write_enum), _enum_converter(cls))
        if dataclasses.is_dataclass(cls):
            self.register_dataclass(cls)
            name = self.classes.name_of(cls) or ""
            return HintedType(
                name, name, _nullable(Encoder.write_object), self._object_converter(cls)
            )
        raise InterfaceError(f"{cls.__qualname__} has no Java type: make it a dataclass or an Enum")

    def register_dataclass(self, cls: type) -> None:
        """Registers a dataclass with its fields, which may refer back to it."""
        if cls in self.classes:
            return
        self._register(cls, ())
        hints = typing.get_type_hints(cls, include_extras=True)
        found = [(field.name, self.of(hints[field.name])) for field in dataclasses.fields(cls)]
        # hessian-lite 4.0.4 (Dubbo 3) puts the eight bytes of a double into a float field. That
        # field is lost, and so is its neighbour unless it is set later. So floats come first.
        found.sort(key=lambda item: item[1].java != "float")
        fields = [Field(name, java_name(name), kind.write, kind.convert) for name, kind in found]
        self._register(cls, fields)

    def register_exception(self, cls: type[BaseException]) -> None:
        """Registers a declared exception. Its annotated attributes are its fields."""
        if cls in self.classes:
            return
        hints = typing.get_type_hints(cls, include_extras=True)
        found = [(name, self.of(hint)) for name, hint in hints.items() if name[0] != "_"]
        self._register(cls, [Field(n, java_name(n), k.write, k.convert) for n, k in found])

    def _register(self, cls: type, fields: Sequence[Field]) -> None:
        name = self.classes.name_of(cls) or f"{self._package}{cls.__name__}"
        self.classes.add(cls, name, fields)

    def _object_converter(self, cls: type) -> Convert:
        def convert(value: Any) -> Any:
            if value is None or isinstance(value, cls):
                return value
            if isinstance(value, dict):
                return self._from_map(cls, value)
            raise _not_a(cls.__name__, value)

        return convert

    def _from_map(self, cls: type, value: dict[Any, Any]) -> Any:
        """Generic calls send objects as maps with their fields and the entry `class`."""
        names = tuple(name for name in value if name != "class")
        shape = self.classes.shape(self.classes.name_of(cls) or "", names)
        if shape is None:
            raise _not_a(cls.__name__, value)
        built = shape.new(cls)
        for name, setter in zip(names, shape.setters, strict=True):
            if setter is not None:
                field, convert = setter
                item = value[name]
                object.__setattr__(built, field, convert(item) if convert else item)
        for name, default in shape.missing:
            object.__setattr__(built, name, default())
        return built


def _not_a(expected: str, value: Any) -> HessianError:
    got = value.java_class if isinstance(value, JavaObject) else type(value).__name__
    return HessianError(f"expected {expected}, not {got}")


def _nullable(write: Writer) -> Writer:
    def write_or_null(encoder: Encoder, value: Any) -> None:
        if value is None:
            encoder.out.append(0x4E)
        else:
            write(encoder, value)

    return write_or_null


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _instance_of(cls: type, name: str) -> Convert:
    def convert(value: Any) -> Any:
        if value is None or isinstance(value, cls):
            return value
        raise _not_a(name, value)

    return convert


def _to_int(value: Any) -> Any:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise _not_a("int", value)


def _to_bool(value: Any) -> Any:
    if type(value) is bool:
        return value
    raise _not_a("bool", value)


def _to_float(value: Any) -> Any:
    if type(value) is float:
        return value
    if type(value) in (int, Decimal):
        return float(value)
    raise _not_a("float", value)


def _to_decimal(value: Any) -> Any:
    if value is None or isinstance(value, Decimal):
        return value
    if type(value) in (int, float, str):
        return Decimal(str(value))
    raise _not_a("Decimal", value)


def _enum_converter(cls: type[Enum]) -> Convert:
    def convert(value: Any) -> Any:
        if value is None or isinstance(value, cls):
            return value
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]  # as generic calls send it
        raise _not_a(cls.__name__, value)

    return convert


def _checked_text(encoder: Encoder, value: Any) -> None:
    if not isinstance(value, str):
        raise _not_a("str", value)
    encoder.write_text(value)


def _checked_bool(encoder: Encoder, value: Any) -> None:
    if type(value) is not bool:
        raise _not_a("bool", value)
    encoder.write_bool(value)


def _checked_double(encoder: Encoder, value: Any) -> None:
    encoder.write_double(float(value))


def _one_char(encoder: Encoder, value: Any) -> None:
    if not isinstance(value, str) or len(value) != 1:
        raise _not_a("one character", value)
    encoder.write_text(value)


def _bounded(bits: int) -> Writer:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(encoder: Encoder, value: Any) -> None:
        if not low <= value <= high:
            raise HessianError(f"{value} does not fit into {bits} bits")
        encoder.write_int(value)

    return write


def _any_of(items: Convert) -> Callable[[Any], list[Any]]:
    if items is _same:
        return lambda value: value if type(value) is list else list(value)
    return lambda value: [items(item) for item in value]


def _list(java: str, item: HintedType, build: type) -> HintedType:
    name = f"{java}<{item.boxed}>"
    write_item = _item_writer(item)
    convert_items = _any_of(_item_converter(item))

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, (list, tuple, set, bytes)):
            raise _not_a("a list", value)
        items = convert_items(value)
        return items if build is list else build(items)

    return HintedType(
        name, name, _nullable(lambda encoder, value: encoder.write_list(value, write_item)), convert
    )


def _refuse_collisions(keys: list[Any]) -> None:
    """Raises TypeError for a key without a hash."""
    if len(keys) > MAX_COLLISIONS and sum(map(Collisions().is_one, keys)) > MAX_COLLISIONS:
        raise HessianError(f"more than {MAX_COLLISIONS} keys with the hash of another")


def _set(item: HintedType, build: type) -> HintedType:
    name = f"java.util.Set<{item.boxed}>"
    as_list = _list("java.util.List", item, list)
    write_item = _item_writer(item)

    def convert(value: Any) -> Any:
        items = as_list.convert(value)
        if items is None:
            return None
        try:
            _refuse_collisions(items)
            return build(items)
        except TypeError as error:
            raise HessianError(f"a set cannot hold this: {error}") from error

    return HintedType(
        name,
        name,
        _nullable(
            lambda encoder, value: encoder.write_array("java.util.HashSet", value, write_item)
        ),
        convert,
    )


def _map(key: HintedType, item: HintedType) -> HintedType:
    name = f"java.util.Map<{key.boxed}, {item.boxed}>"
    write_key, write_item = _item_writer(key), _item_writer(item)
    to_key, to_item = _item_converter(key), _item_converter(item)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _not_a("a map", value)
        if to_key is _same and to_item is _same:
            return value
        keys = [to_key(key) for key in value]
        _refuse_collisions(keys)
        return dict(zip(keys, map(to_item, value.values()), strict=True))

    return HintedType(
        name,
        name,
        _nullable(lambda encoder, value: encoder.write_map(value, write_key, write_item)),
        convert,
    )


def _item_writer(item: HintedType) -> Writer:
    """Inside containers, and where None is allowed, every Java value is an object."""
    return item.write if item.java == item.boxed else _nullable(item.write)


def _item_converter(item: HintedType) -> Convert:
    if item.convert is _same or item.java == item.boxed:
        return item.convert
    return _optional(item.convert)


def _array(java: str, item: HintedType) -> HintedType:
    inner = java[:-2]
    type_name = "[" + _ARRAY_ITEMS.get(inner, inner)
    write_item = item.write
    as_list = _list("java.util.List", item, list)
    return HintedType(
        java,
        java,
        _nullable(lambda encoder, value: encoder.write_array(type_name, value, write_item)),
        as_list.convert,
    )


# Hessian has short names for some arrays.
_ARRAY_ITEMS = {"java.lang.String": "string", "java.lang.Object": "object"}


def _value(java: str, write: Writer, convert: Convert, boxed: str | None = None) -> HintedType:
    if boxed is None:
        return HintedType(java, java, _nullable(write), convert)
    return HintedType(java, boxed, write, convert)


_WIDTHS: dict[str, HintedType] = {
    "byte": _value("byte", _bounded(8), _to_int, "java.lang.Byte"),
    "short": _value("short", _bounded(16), _to_int, "java.lang.Short"),
    "int": _value("int", Encoder.write_int, _to_int, "java.lang.Integer"),
    "long": _value("long", Encoder.write_long, _to_int, "java.lang.Long"),
    "float": _value("float", _checked_double, _to_float, "java.lang.Float"),
    "double": _value("double", _checked_double, _to_float, "java.lang.Double"),
    "boolean": _value("boolean", _checked_bool, _to_bool, "java.lang.Boolean"),
    "char": _value("char", _one_char, _instance_of(str, "a character"), "java.lang.Character"),
    "java.math.BigInteger": _value(
        "java.math.BigInteger", Encoder.write_big_integer, _optional(_to_int)
    ),
}

_OBJECT = HintedType("java.lang.Object", "java.lang.Object", Encoder.write, _same)

_PLAIN: dict[Any, HintedType] = {
    Any: _OBJECT,
    object: _OBJECT,
    None: HintedType("void", "java.lang.Void", Encoder.write_none, _same),
    types.NoneType: HintedType("void", "java.lang.Void", Encoder.write_none, _same),
    bool: _WIDTHS["boolean"],
    int: _WIDTHS["long"],
    float: _WIDTHS["double"],
    str: _value("java.lang.String", _checked_text, _instance_of(str, "str")),
    bytes: _value("byte[]", Encoder.write_bytes, _instance_of(bytes, "bytes")),
    datetime: _value("java.util.Date", Encoder.write_date, _instance_of(datetime, "datetime")),
    date: _value("java.time.LocalDate", Encoder.write_local_date, _instance_of(date, "date")),
    time: _value("java.time.LocalTime", Encoder.write_local_time, _instance_of(time, "time")),
    timedelta: _value(
        "java.time.Duration", Encoder.write_duration, _instance_of(timedelta, "timedelta")
    ),
    Decimal: _value("java.math.BigDecimal", Encoder.write_decimal, _to_decimal),
    UUID: _value("java.util.UUID", Encoder.write_uuid, _instance_of(UUID, "UUID")),
    list: _list("java.util.List", _OBJECT, list)._replace(java="java.util.List"),
    tuple: _list("java.util.List", _OBJECT, tuple)._replace(java="java.util.List"),
    dict: _map(_OBJECT, _OBJECT)._replace(java="java.util.Map"),
    set: _set(_OBJECT, set)._replace(java="java.util.Set"),
}
