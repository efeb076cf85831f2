"""Maps Python classes to Java classes, and builds and takes apart their objects.

A `JavaClasses` belongs to one service or consumer. Objects of unknown classes are read as
`JavaObject`. Field names are camelCase in Java and snake_case in Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from floodmark.service.hessian.errors import HessianError
from floodmark.service.hessian.limits import MAX_KNOWN_SHAPES, MAX_SHAPE_LETTERS

T = TypeVar("T", bound=type)
Convert = Callable[[Any], Any]

_MARK = "__java_class__"


class JavaObject:
    """An object of a Java class without a Python class. Fields have their Java names."""

    __slots__ = ("fields", "java_class")

    def __init__(self, java_class: str, fields: dict[str, Any]) -> None:
        self.java_class = java_class
        self.fields = fields

    def __repr__(self) -> str:
        return f"<{self.java_class} with {', '.join(self.fields) or 'no fields'}>"


def java_class(name: str) -> Callable[[T], T]:
    """Declares the Java class of a dataclass, an enum or an exception."""

    def mark(cls: T) -> T:
        setattr(cls, _MARK, name)
        return cls

    return mark


def java_name(python_name: str) -> str:
    """`unit_price` becomes `unitPrice`; leading underscores stay."""
    stem = python_name.lstrip("_")
    head, *rest = stem.split("_")
    camel = head + "".join(word[:1].upper() + word[1:] for word in rest)
    return "_" * (len(python_name) - len(stem)) + camel


class Field(NamedTuple):
    """A field of a Python class on the wire."""

    name: str
    java_name: str
    write: Callable[[Any, Any], None] | None
    """Writes a value of this field's type to an encoder. None: by the value's own type."""
    convert: Convert | None
    """Converts a decoded value to the hinted type. None: no conversion needed."""


class Shape(NamedTuple):
    """How to build an object of a known class from a definition's list of fields."""

    cls: type
    new: Callable[[type], Any]
    setters: tuple[tuple[str, Convert | None] | None, ...]
    """Per field of the definition; None: the Python class has no such field."""
    missing: tuple[tuple[str, Callable[[], Any]], ...]
    """Fields that the definition lacks, with factories for their defaults."""


class JavaClasses:
    """The classes a service or consumer may send and receive."""

    def __init__(self) -> None:
        self._name_of: dict[type, str] = {}
        self._class_of: dict[str, type] = {}
        self._fields: dict[type, tuple[Field, ...]] = {}
        self._shapes: dict[tuple[str, tuple[str, ...]], Shape] = {}

    def add(self, cls: type, name: str, fields: Iterable[Field] | None = None) -> None:
        """Registers a class. A second class under the same name is an error."""
        known = self._class_of.get(name)
        if known is not None and known is not cls:
            raise HessianError(f"{cls!r} and {known!r} both stand for the Java class {name}")
        self._name_of[cls] = name
        self._class_of[name] = cls
        self._fields[cls] = tuple(fields) if fields is not None else _fields_of(cls)

    def __contains__(self, cls: type) -> bool:
        return cls in self._name_of

    def __iter__(self) -> Iterator[tuple[type, str]]:
        return iter(self._name_of.items())

    def name_of(self, cls: type) -> str | None:
        name = self._name_of.get(cls)
        return name if name is not None else getattr(cls, _MARK, None)

    def class_of(self, name: str) -> type | None:
        return self._class_of.get(name)

    def fields_of(self, cls: type) -> tuple[Field, ...]:
        known = self._fields.get(cls)
        if known is None:
            known = self._fields[cls] = _fields_of(cls)
        return known

    def shape(self, name: str, field_names: tuple[str, ...]) -> Shape | None:
        """How to build objects of this definition, if the class is known."""
        cls = self._class_of.get(name)
        if cls is None or issubclass(cls, Enum):
            return None
        key = (name, field_names)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._new_shape(cls, field_names)
            if sum(map(len, field_names)) <= MAX_SHAPE_LETTERS:
                if len(self._shapes) >= MAX_KNOWN_SHAPES:
                    self._shapes.clear()
                self._shapes[key] = shape
        return shape

    def _new_shape(self, cls: type, field_names: tuple[str, ...]) -> Shape:
        known = {field.java_name: field for field in self.fields_of(cls)}
        known |= {field.name: field for field in self.fields_of(cls)}
        if issubclass(cls, BaseException):
            known["detailMessage"] = Field("args", "detailMessage", None, _message_arguments)
        found = [known.get(name) for name in field_names]
        present = {field.name for field in found if field is not None}
        missing = [field.name for field in self.fields_of(cls) if field.name not in present]
        defaults = _defaults(cls)
        return Shape(
            cls,
            BaseException.__new__ if issubclass(cls, BaseException) else object.__new__,
            tuple(None if field is None else (field.name, field.convert) for field in found),
            tuple((name, defaults.get(name, _none)) for name in missing),
        )


def _fields_of(cls: type) -> tuple[Field, ...]:
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
    elif issubclass(cls, BaseException):
        names = [name for name in getattr(cls, "__annotations__", {}) if not name.startswith("_")]
    else:
        names = []
    return tuple(Field(name, java_name(name), None, None) for name in names)


def _defaults(cls: type) -> dict[str, Callable[[], Any]]:
    if not dataclasses.is_dataclass(cls):
        return {}
    defaults: dict[str, Callable[[], Any]] = {}
    for field in dataclasses.fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory
        elif field.default is not dataclasses.MISSING:
            defaults[field.name] = _constant(field.default)
    return defaults


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _message_arguments(message: Any) -> tuple[Any, ...]:
    return () if message is None else (message,)


def _none() -> None:
    return None
