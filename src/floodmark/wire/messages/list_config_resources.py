"""ListConfigResources (API key 74), versions 0 to 1.

Lists resources that have settings.

- v0: client metrics only.
- v1: any type (KIP-1142).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, int8, int16, int32, message, string, struct


@message(ApiKey.LIST_CONFIG_RESOURCES, "request", versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = array("int8", "1+")


@struct
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


@message(ApiKey.LIST_CONFIG_RESOURCES, "response", versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
