"""The answer that refuses a request, made from the request's and the answer's definitions.

Used by `faults`. Kafka's answers carry errors in different places: one at the top, or one for each
thing that was asked about. Rather than a hand-written answer for each API, the things named in the
request are mirrored into the answer by the names of their fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import response_class
from floodmark.wire.schema import Field, schema_of

ERROR_TEXT = "made to fail by a test"

CODE_FIELDS = ("error_code", "partition_error_code")

PER_PARTITION_FIRST = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""Both can carry a code at the top, but what tests mean is the one at the partition or topic."""

ALWAYS_AT_THE_TOP = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

NOT_MIRRORED = frozenset({ApiKey.ALTER_REPLICA_LOG_DIRS})
"""Asks by folder and answers by topic."""

SAME_THING = {
    "partition_index": ("partition", "index"),
    "topic_name": ("name",),
    "user": ("name",),
    "partition_id": ("partition",),
}
"""Fields that the request calls by another name."""

NAMES_OF_A_STRING = ("group_id", "transactional_id", "key", "name")
NAMES_OF_AN_INTEGER = ("partition_index", "partition_id")


def error_answer(api_key: ApiKey, version: int, request: Any, error_code: ErrorCode) -> Any:
    """A response that says `error_code` wherever this API says such things."""
    answer = response_class(api_key)()
    per_thing = api_key in PER_PARTITION_FIRST and error_code not in ALWAYS_AT_THE_TOP
    by_thing = per_thing or not _has_code(type(answer), version)
    if not (by_thing and _mirror(answer, request, version, error_code)):
        _set_code(answer, version, error_code)
    return answer


def _has_code(cls: type, version: int) -> bool:
    return any(field.name in CODE_FIELDS for field in _fields(cls, version))


def _set_code(target: Any, version: int, error_code: ErrorCode) -> None:
    for field in _fields(type(target), version):
        if field.name in CODE_FIELDS:
            setattr(target, field.name, error_code)
        elif field.name == "error_message":
            target.error_message = ERROR_TEXT


def _mirror(target: Any, source: Any, version: int, error_code: ErrorCode) -> bool:
    """Fills the arrays of `target` that can hold codes from what `source` lists."""
    filled = False
    for field in _fields(type(target), version):
        if field.kind == "array" and _can_hold_code(field, version):
            items = [
                _mirror_one(field.element, item, version, error_code)
                for item in _listed(source, version)
            ]
            setattr(target, field.name, items)
            filled = filled or bool(items)
    return filled


def _mirror_one(cls: type, item: Any, version: int, error_code: ErrorCode) -> Any:
    target = cls()
    for field in _fields(cls, version):
        value = _value_for(field.name, item)
        if value is not None and field.kind not in ("array", "struct"):
            setattr(target, field.name, value)
    _set_code(target, version, error_code)
    _mirror(target, item, version, error_code)
    return target


def _value_for(name: str, item: Any) -> Any:
    if isinstance(item, str):
        return item if name in NAMES_OF_A_STRING else None
    if isinstance(item, int):
        return item if name in NAMES_OF_AN_INTEGER else None
    for candidate in (name, *SAME_THING.get(name, ())):
        if hasattr(item, candidate):
            return getattr(item, candidate)
    return None


def _listed(source: Any, version: int) -> Iterable[Any]:
    """What a request, or a part of it, is about: the first list in it that is not empty."""
    if isinstance(source, str | int):
        return ()
    for field in _fields(type(source), version):
        if field.kind == "array" and getattr(source, field.name):
            listed: Iterable[Any] = getattr(source, field.name)
            return listed
    return ()


def _can_hold_code(field: Field, version: int) -> bool:
    if isinstance(field.element, str):
        return False
    if _has_code(field.element, version):
        return True
    inner = (inner for inner in _fields(field.element, version) if inner.kind == "array")
    return any(_can_hold_code(array, version) for array in inner)


def _fields(cls: type, version: int) -> Iterator[Field]:
    return (field for field in schema_of(cls).fields if field.exists_in(version))
