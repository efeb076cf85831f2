"""Every message class and version that the wire defines."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import floodmark.wire.internal
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.messages import request_class, response_class
from floodmark.wire.schema import Schema, schema_of


def api_classes() -> Iterator[type]:
    for api_key in ApiKey:
        yield request_class(api_key)
        yield response_class(api_key)


def internal_classes() -> Iterator[type]:
    package = floodmark.wire.internal
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            schema = getattr(value, "__wire__", None)
            if isinstance(schema, Schema) and schema.kind and value.__module__ == info.name:
                yield value


def class_versions(cls: type) -> range:
    first, last = schema_of(cls).versions
    return range(first, last + 1)


def cases() -> list[Any]:
    """pytest parameters (cls, version)."""
    return [
        pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
        for cls in (*api_classes(), *internal_classes())
        for version in class_versions(cls)
    ]
