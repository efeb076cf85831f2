"""Requests of every API in which one array has as many entries as a test wants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from floodmark.wire.schema import Field, schema_of
from floodmark.wire.source import FIXED_FORMATS

Path = tuple[str, ...]


def array_paths(cls: type, version: int) -> Iterator[tuple[Path, bool]]:
    """The arrays of a message by the names of the fields that lead there, and whether they hold
    plain numbers."""
    for field in _fields(cls, version):
        if field.kind == "array":
            yield (field.name,), field.element in FIXED_FORMATS
        if field.kind in ("array", "struct") and not isinstance(field.element, str):
            for path, is_number in array_paths(field.element, version):
                yield (field.name, *path), is_number


def with_entries(cls: type, version: int, path: Path, count: int) -> Any:
    """A message in which the array at this path has so many entries, each another one."""
    message = cls()
    (field,) = (field for field in _fields(cls, version) if field.name == path[0])
    if len(path) == 1:
        setattr(message, field.name, [_entry(field, version, number) for number in range(count)])
    else:
        inner = with_entries(field.element, version, path[1:], count)
        setattr(message, field.name, inner if field.kind == "struct" else [inner])
    return message


def _fields(cls: type, version: int) -> list[Field]:
    return [field for field in schema_of(cls).fields if field.exists_in(version)]


def _entry(field: Field, version: int, number: int) -> Any:
    if isinstance(field.element, str):
        return _value(field.element, number)
    entry = field.element()
    for inner in _fields(field.element, version):
        if inner.kind in ("string", "uuid") and inner.tag is None:
            setattr(entry, inner.name, _value(inner.kind, number))
        elif inner.name in ("partition", "partition_index", "index"):
            setattr(entry, inner.name, number)
    return entry


def _value(kind: str, number: int) -> Any:
    if kind == "string":
        return f"t{number}"
    if kind == "uuid":
        return UUID(int=number + 1)
    return number % 100 if kind == "int8" else number
