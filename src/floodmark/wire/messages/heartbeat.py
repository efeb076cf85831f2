"""Heartbeat (API key 12), versions 0 to 4.

Keeps a member of a classic group alive.

- v1: throttle time.
- v2: the broker answers before it throttles.
- v3: group instance id (KIP-345).
- v4: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import int16, int32, message, string


@message(ApiKey.HEARTBEAT, "request", versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message(ApiKey.HEARTBEAT, "response", versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
