"""AlterClientQuotas (API key 49), versions 0 to 1.

Sets and removes client quotas.

- v1: flexible.
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, boolean, float64, int16, int32, message, string, struct


@struct
class RequestEntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class RequestEntryData:
    entity: list[RequestEntityData] = array(RequestEntityData)
    ops: list[OpData] = array(OpData)


@message(ApiKey.ALTER_CLIENT_QUOTAS, "request", versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[RequestEntryData] = array(RequestEntryData)
    validate_only: bool = boolean()


@struct
class ResponseEntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class ResponseEntryData:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[ResponseEntityData] = array(ResponseEntityData)


@message(ApiKey.ALTER_CLIENT_QUOTAS, "response", versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32()
    entries: list[ResponseEntryData] = array(ResponseEntryData)
