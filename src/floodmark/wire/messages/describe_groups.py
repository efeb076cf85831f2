"""DescribeGroups (API key 15), versions 0 to 6.

Describes classic groups and their members.

- v1: throttle time.
- v2: the broker answers before it throttles.
- v3: authorized operations, on request.
- v4: group instance ids.
- v5: flexible.
- v6: a missing group is an error, with a message (KIP-1043).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, binary, boolean, int16, int32, message, string, struct


@message(ApiKey.DESCRIBE_GROUPS, "request", versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = array("string")
    include_authorized_operations: bool = boolean("3+")


@struct
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


@message(ApiKey.DESCRIBE_GROUPS, "response", versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
