"""Requests of a given size with as many entries as fit, in each of their arrays in turn."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from floodmark.wire.compiler import encode
from floodmark.wire.schema import Field, schema_of
from fuzz_kit.messages import MessageMaker


def floods(
    cls: type, version: int, random: Random, topic_ids: list[UUID], most_bytes: int
) -> Iterator[tuple[str, bytes]]:
    """Which array is flooded, and the body of the request."""
    maker = MessageMaker(random, topic_ids, array_sizes=(1,), null_share=0.0)
    for path in _array_paths(cls, version):
        message = maker.make(cls, version)
        owner = message
        for field in path[:-1]:
            value = getattr(owner, field.name)
            owner = value[0] if field.kind == "array" else value
        field = path[-1]
        entry_bytes = _size_of_an_entry(message, owner, field, version)
        count = most_bytes // entry_bytes
        entries = maker.entries(type(owner).__name__, field, version, count)
        setattr(owner, field.name, entries)
        while len(body := encode(message, version)) > most_bytes and entries:
            del entries[-max(1, len(entries) // 10) :]
        if len(body) <= most_bytes:
            yield f"{'.'.join(step.name for step in path)} x {len(entries)}", body


def _size_of_an_entry(message: Any, owner: Any, field: Field, version: int) -> int:
    one = getattr(owner, field.name)
    size_bytes = len(encode(message, version))
    setattr(owner, field.name, one * 2)
    return max(1, len(encode(message, version)) - size_bytes)


def _array_paths(cls: type, version: int) -> Iterator[list[Field]]:
    for field in schema_of(cls).fields:
        if not field.exists_in(version):
            continue
        if field.kind == "array":
            yield [field]
        if field.kind in ("array", "struct") and not isinstance(field.element, str):
            for path in _array_paths(field.element, version):
                yield [field, *path]
