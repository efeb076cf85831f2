"""Builds error responses from the definitions of request and response.

Used by `apis.gate` for denied requests, and by `testing.faults`. Kafka's responses carry errors in
different places: one at the top, or one per item. Instead of hand-writing a response per API, this
copies the items named in the request into the response by field name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages import response_class
from floodmark.wire.schema import Field, schema_of

CODE_FIELDS = ("error_code", "partition_error_code")

PER_PARTITION_FIRST = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""Both can carry a top-level code, but tests mean the one at the partition or topic."""

ALWAYS_AT_THE_TOP = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

EVERYWHERE = frozenset(
    {
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ELECT_LEADERS,
    }
)
"""These carry the error at the top and for each partition or user."""

BLANKS: dict[ApiKey, Mapping[str, object]] = {
    ApiKey.PRODUCE: {"base_offset": -1},
    ApiKey.FETCH: {"high_watermark": -1, "log_start_offset": -1, "records": b""},
    ApiKey.LIST_OFFSETS: {"timestamp": -1},
    ApiKey.OFFSET_FETCH: {"committed_offset": -1},
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "port": -1},
    ApiKey.JOIN_GROUP: {"protocol_name": None},
    ApiKey.CREATE_TOPICS: {"num_partitions": -1, "replication_factor": -1},
    ApiKey.DELETE_RECORDS: {"low_watermark": -1},
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {"leader_epoch": -1},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
}
"""The values of fields without a result, unless it is their default."""

NO_BLANKS: Mapping[str, object] = {}

SAME_THING = {
    "partition_index": ("partition", "index"),
    "topic_name": ("name",),
    "user": ("name",),
    "partition_id": ("partition",),
}
"""Fields that have another name in the request."""

NAMES_OF_A_STRING = ("group_id", "transactional_id", "key", "name")
NAMES_OF_AN_INTEGER = ("partition_index", "partition_id")


def error_answer(
    api_key: ApiKey,
    version: int,
    request: object,
    error_code: ErrorCode,
    text: str | None = None,
    *,
    only_at_the_top: bool = False,
) -> object:
    """A response with `error_code` wherever this API reports errors."""
    answer = response_class(api_key)()
    mirror = _Mirror(api_key, version, error_code, text or error_code.message)
    mirror.blank(answer)
    per_thing = api_key in PER_PARTITION_FIRST and error_code not in ALWAYS_AT_THE_TOP
    at_the_top = only_at_the_top or (mirror.has_code(type(answer)) and not per_thing)
    if (at_the_top and api_key not in EVERYWHERE) or not mirror.fill(answer, request) or at_the_top:
        mirror.set_code(answer)
    return answer


def error_entry(
    api_key: ApiKey,
    version: int,
    cls: type,
    item: object,
    error_code: ErrorCode,
    text: str | None = None,
) -> object:
    """An entry of the response that refuses one item of a request."""
    return _Mirror(api_key, version, error_code, text).one(cls, item)


class _Mirror:
    """Refuses the items of requests of one API and version."""

    def __init__(
        self, api_key: ApiKey, version: int, error_code: ErrorCode, text: str | None
    ) -> None:
        self._api_key = api_key
        self._version = version
        self._error_code = error_code
        self._text = text
        self._blanks = BLANKS.get(api_key, NO_BLANKS)

    def has_code(self, cls: type) -> bool:
        return any(field.name in CODE_FIELDS for field in self._fields(cls))

    def set_code(self, target: object) -> None:
        for field in self._fields(type(target)):
            if field.name in CODE_FIELDS:
                setattr(target, field.name, self._error_code)
            elif field.name == "error_message":
                setattr(target, field.name, self._text)

    def blank(self, target: object) -> None:
        for field in self._fields(type(target)):
            if field.name in self._blanks:
                blank = self._blanks[field.name]
                if blank is not None or field.nullable_in(self._version):
                    setattr(target, field.name, blank)

    def fill(self, target: object, source: object) -> bool:
        """Fills the arrays of `target` that can hold codes with the items of `source`."""
        filled = False
        for field in self._fields(type(target)):
            if field.kind == "array" and self._can_hold_code(field):
                items = [self.one(field.element, item) for item in self._listed(source)]
                setattr(target, field.name, items)
                filled = filled or bool(items)
        return filled

    def one(self, cls: type, item: object) -> object:
        target = cls()
        for field in self._fields(cls):
            value = _value_for(field.name, item)
            if value is not None and field.kind not in ("array", "struct"):
                setattr(target, field.name, value)
            elif field.name == "entity":
                # The quota entity: clients match the response to their request by it.
                setattr(target, field.name, [self.one(field.element, part) for part in value])
        self.blank(target)
        self.set_code(target)
        self.fill(target, item)
        return target

    def _listed(self, source: object) -> Iterable[Any]:
        """The items of a request, or of a part of it: its first non-empty list."""
        if isinstance(source, str | int):
            return ()
        for field in self._fields(type(source)):
            if field.kind == "array" and getattr(source, field.name):
                listed: Iterable[Any] = getattr(source, field.name)
                if field.name == "dirs" and self._api_key is ApiKey.ALTER_REPLICA_LOG_DIRS:
                    # Requests list by folder, responses by topic.
                    return [topic for folder in listed for topic in folder.topics]
                return listed
        return ()

    def _can_hold_code(self, field: Field) -> bool:
        if isinstance(field.element, str):
            return False
        if self.has_code(field.element):
            return True
        inner = (inner for inner in self._fields(field.element) if inner.kind == "array")
        return any(self._can_hold_code(array) for array in inner)

    def _fields(self, cls: type) -> Iterator[Field]:
        return (field for field in schema_of(cls).fields if field.exists_in(self._version))


def _value_for(name: str, item: object) -> Any:
    if isinstance(item, str):
        return item if name in NAMES_OF_A_STRING else None
    if isinstance(item, int):
        return item if name in NAMES_OF_AN_INTEGER else None
    for candidate in (name, *SAME_THING.get(name, ())):
        if hasattr(item, candidate):
            return getattr(item, candidate)
    return None
