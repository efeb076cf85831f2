"""JoinGroup (API key 11), versions 0 to 9.

Makes a member of a classic group, and waits for the rebalance.

- v1: rebalance timeout.
- v2: throttle time.
- v3: the broker answers before it throttles.
- v4: a new member gets its id first and joins again with it (KIP-394).
- v5: group instance id (KIP-345).
- v6: flexible.
- v7: the response tells the protocol type (KIP-559).
- v8: the reason for joining (KIP-800).
- v9: the leader may be told to skip the assignment (KIP-814).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, binary, boolean, int16, int32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = binary()


@message(ApiKey.JOIN_GROUP, "request", versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = binary()


@message(ApiKey.JOIN_GROUP, "response", versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
