"""ListGroups (API key 16), versions 0 to 5.

Lists the groups of a coordinator.

- v1: throttle time.
- v2: the broker answers before it throttles.
- v3: flexible.
- v4: states, also as a filter (KIP-518).
- v5: types, also as a filter (KIP-848).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int16, int32, message, string, struct


@message(ApiKey.LIST_GROUPS, "request", versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


@struct
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


@message(ApiKey.LIST_GROUPS, "response", versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
