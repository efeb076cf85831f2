"""PURE: generic calls (`$invoke`) with maps for objects, for consumers without the interface."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from floodmark.service.hessian import HessianError, JavaClasses, JavaObject, loads
from floodmark.service.hessian.encode import Encoded

_MAX_DEPTH = 100


def generalized(value: Any, classes: JavaClasses) -> Any:
    """A result like Java's PojoUtils makes it: fields by name, an entry `class`, enums by name."""
    if isinstance(value, Encoded):
        value = loads(value.data, classes)
    return _Generalization(classes).of(value, 0)


class _Generalization:
    """Visits every object once, so that shared objects and cycles are preserved."""

    def __init__(self, classes: JavaClasses) -> None:
        self._classes = classes
        self._made: dict[int, tuple[Any, Any]] = {}
        """Results by the id of the object. The object is kept too, because ids are only unique
        among living objects."""

    def of(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return value.name
        known = self._made.get(id(value))
        if known is not None:
            return known[1]
        if depth > _MAX_DEPTH:
            raise HessianError("a result for a generic call is nested too deeply")
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._list(value, depth)
        if isinstance(value, dict):
            return self._map(value, value, None, depth)
        if isinstance(value, JavaObject):
            return self._map(value, value.fields, value.java_class, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = self._classes.fields_of(type(value))
            items = {field.java_name: getattr(value, field.name) for field in fields}
            return self._map(value, items, self._classes.name_of(type(value)), depth)
        return value

    def _list(self, value: Any, depth: int) -> list[Any]:
        made: list[Any] = []
        self._made[id(value)] = (value, made)
        made.extend(self.of(item, depth + 1) for item in value)
        return made

    def _map(
        self, value: Any, items: dict[Any, Any], java_class: str | None, depth: int
    ) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        self._made[id(value)] = (value, made)
        for name, item in items.items():
            made[name] = self.of(item, depth + 1)
        if java_class is not None:
            made["class"] = java_class
        return made
