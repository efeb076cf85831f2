"""One fixed message per class and version in which every field is set."""

from typing import Any
from uuid import UUID

from floodmark.wire.schema import Field, schema_of

SAMPLES: dict[str, Any] = {
    "bool": True,
    "float64": 1.5,
    "uuid": UUID(int=7),
    "string": "ab",
    "bytes": b"cd",
    "records": b"efg",
}
INTEGER_SAMPLE = 3
"""Of every integer kind; differs from all defaults but the few that are 3."""


def sample(cls: type, version: int) -> Any:
    """A message whose nullable fields are set, whose arrays have one element."""
    fields = [field for field in schema_of(cls).fields if field.exists_in(version)]
    return cls(**{field.name: _sample(field, version) for field in fields})


def nulls(cls: type, version: int) -> Any:
    """A message whose nullable fields are null, and whose other fields are set."""
    fields = [field for field in schema_of(cls).fields if field.exists_in(version)]
    return cls(
        **{
            field.name: None if field.nullable_in(version) else _with_nulls(field, version)
            for field in fields
        }
    )


def _with_nulls(field: Field, version: int) -> Any:
    if field.kind == "struct":
        return nulls(field.element, version)
    if field.kind == "array" and isinstance(field.element, type):
        return [nulls(field.element, version)]
    return _sample(field, version)


def _sample(field: Field, version: int) -> Any:
    if field.kind == "struct":
        return sample(field.element, version)
    if field.kind != "array":
        return SAMPLES.get(field.kind, INTEGER_SAMPLE)
    if isinstance(field.element, type):
        return [sample(field.element, version)]
    return [SAMPLES.get(field.element, INTEGER_SAMPLE)]
