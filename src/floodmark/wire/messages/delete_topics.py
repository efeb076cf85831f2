"""DeleteTopics (API key 20), versions 1 to 6.

Deletes topics.

- v1: throttle time.
- v2: the broker answers before it throttles.
- v3: TOPIC_DELETION_DISABLED may be answered.
- v4: flexible.
- v5: error messages; may be throttled by a quota of its own (KIP-599).
- v6: topics by name or by id.
"""

from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, message, string, struct, uuid


@struct
class DeleteTopicState:
    name: str | None = string(nullable="6+", default=None)
    topic_id: UUID = uuid()


@message(ApiKey.DELETE_TOPICS, "request", versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array("string", "1-5", ignorable=True)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: UUID = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(ApiKey.DELETE_TOPICS, "response", versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
