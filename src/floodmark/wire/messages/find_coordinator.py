"""FindCoordinator (API key 10), versions 0 to 6.

Finds the coordinator of groups or transactional ids.

- v1: key type, so transactions too; throttle time and error message.
- v2: the broker answers before it throttles.
- v3: flexible.
- v4: several keys in one request (KIP-699).
- v5: TRANSACTION_ABORTABLE may be answered (KIP-890).
- v6: share groups (KIP-932).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int8, int16, int32, message, string, struct


@message(ApiKey.FIND_COORDINATOR, "request", versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


@struct
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="4+", ignorable=True)


@message(ApiKey.FIND_COORDINATOR, "response", versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
