"""A request of every API, about one topic, group and transactional id of the same name."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.messages import request_class
from floodmark.wire.schema import ZERO_UUID, schema_of
from wire_kit.samples import SAMPLES, sample

NAME: str = SAMPLES["string"]
"""All names in the requests are this: of a topic, a group, a transaction."""

METADATA_BY_ID_SINCE = 12

VALUES: dict[str, Any] = {
    "acks": 1,
    "duration_filter": -1,
    "election_type": 0,
    "endpoint_type": 1,
    "isolation_level": 0,
    "key_type": 0,
    "max_wait_ms": 0,
    "producer_id_filters": [],
    "resource_type": 2,
    "session_epoch": -1,
    "session_id": 0,
    "state_filters": [],
    "states_filter": [],
    "timeout_ms": 10_000,
    "transactional_id_pattern": None,
    "types_filter": [],
}
"""So that a request is not refused for another reason."""


def request_of(api_key: ApiKey, version: int, topic_id: UUID) -> Any:
    if api_key is ApiKey.METADATA and version < METADATA_BY_ID_SINCE:
        topic_id = ZERO_UUID
    request = _filled(sample(request_class(api_key), version), topic_id)
    if api_key is ApiKey.PRODUCE:
        request.transactional_id = None
    return request


def _filled(message: Any, topic_id: UUID) -> Any:
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        if field.name in VALUES:
            setattr(message, field.name, VALUES[field.name])
        elif field.name == "topic_id":
            message.topic_id = topic_id
        elif isinstance(value, list):
            for item in value:
                if not isinstance(item, str | int):
                    _filled(item, topic_id)
    return message
