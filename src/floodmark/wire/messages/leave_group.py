"""LeaveGroup (API key 13), versions 0 to 5.

Takes members out of a classic group.

- v1: throttle time.
- v2: the broker answers before it throttles.
- v3: several members at once, by member id or group instance id (KIP-345).
- v4: flexible.
- v5: the reason for leaving (KIP-800).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, message, string, struct


@struct
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(ApiKey.LEAVE_GROUP, "request", versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@struct
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable="3+")
    error_code: int = int16()


@message(ApiKey.LEAVE_GROUP, "response", versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
