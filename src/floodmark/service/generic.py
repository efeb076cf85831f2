"""PURE: generic calls (`$invoke`): objects as maps, for consumers without the interface."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

from floodmark.service.hessian import HessianError, JavaClasses, JavaObject, loads
from floodmark.service.hessian.encode import Encoded

_MAX_DEPTH = 100


def generalized(value: Any, classes: JavaClasses, depth: int = 0) -> Any:
    """A result as Java's PojoUtils makes it: fields by name, an entry `class`, enums by name."""
    if depth > _MAX_DEPTH:
        raise HessianError("a result for a generic call is nested too deeply, or in a cycle")
    if isinstance(value, Encoded):
        return generalized(loads(value.data, classes), classes)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (list, tuple, set, frozenset)):
        return [generalized(item, classes, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: generalized(item, classes, depth + 1) for key, item in value.items()}
    if isinstance(value, JavaObject):
        return {
            **{name: generalized(v, classes, depth + 1) for name, v in value.fields.items()},
            "class": value.java_class,
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.java_name: generalized(getattr(value, field.name), classes, depth + 1)
            for field in classes.fields_of(type(value))
        }
        return {**fields, "class": classes.name_of(type(value))}
    return value
