"""Hypothesis strategies for messages, made from their definitions."""

from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from floodmark.wire.schema import Field, schema_of

Kinds = Mapping[str, st.SearchStrategy[Any]]

quick = settings(
    max_examples=6,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
"""Few examples, because there are hundreds of codecs."""

INTEGERS: Kinds = {
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
}
VALUES: Kinds = {
    **INTEGERS,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "string": st.sampled_from(["", "a", "topic-ü", "漢字", "x" * 126, "y" * 127, "z" * 300]),
    "bytes": st.sampled_from([b"", b"\0", b"\xff" * 126, b"b" * 127]),
    "records": st.sampled_from([b"", b"r", b"r" * 20_000]),
}
TAME_VALUES: Kinds = {**VALUES, **dict.fromkeys(INTEGERS, st.integers(1, 80))}
"""For kio, which turns codes, times and durations into types that not every integer fits."""


def messages(cls: type, version: int, kinds: Kinds = VALUES) -> st.SearchStrategy[Any]:
    """Messages that set only the fields of this version."""
    fields = [field for field in schema_of(cls).fields if field.exists_in(version)]
    arguments = {field.name: _values(field, version, kinds) for field in fields}
    return st.fixed_dictionaries(arguments).map(lambda chosen: cls(**chosen))


def _values(field: Field, version: int, kinds: Kinds) -> st.SearchStrategy[Any]:
    if field.kind == "array":
        element = field.element
        items = kinds[element] if isinstance(element, str) else messages(element, version, kinds)
        strategy: st.SearchStrategy[Any] = st.lists(items, max_size=2)
    elif field.kind == "struct":
        strategy = messages(field.element, version, kinds)
    else:
        strategy = kinds[field.kind]
    return strategy | st.none() if field.nullable_in(version) else strategy
