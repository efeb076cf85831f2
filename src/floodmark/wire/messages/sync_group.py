"""SyncGroup (API key 14), versions 0 to 5.

Brings a member its assignment; the leader sends all of them.

- v1: throttle time.
- v2: the broker answers before it throttles.
- v3: group instance id (KIP-345).
- v4: flexible.
- v5: protocol type and name, in both directions (KIP-559).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, binary, int16, int32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = binary()


@message(ApiKey.SYNC_GROUP, "request", versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(ApiKey.SYNC_GROUP, "response", versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary()
