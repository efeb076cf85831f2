"""DeleteGroups (API key 42), versions 0 to 2.

Deletes empty groups.

- v1: the broker answers before it throttles.
- v2: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, message, string, struct


@message(ApiKey.DELETE_GROUPS, "request", versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = array("string")


@struct
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@message(ApiKey.DELETE_GROUPS, "response", versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
