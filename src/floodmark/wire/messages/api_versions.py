"""ApiVersions (API key 18), versions 0 to 4.

Tells which APIs and versions the broker serves.
Its response header is always v0, and a version that the broker does not know is answered in the
form of v0.

- v1: throttle time.
- v2: the broker answers before it throttles.
- v3: flexible; the client names its software, the response has features (KIP-511, KIP-584).
- v4: a feature's lowest version may be 0 (KAFKA-17011).
"""

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.schema import array, boolean, int16, int32, int64, message, string, struct


@message(ApiKey.API_VERSIONS, "request", versions="0-4", flexible="3+")
class ApiVersionsRequest:
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


@struct
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@struct
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(ApiKey.API_VERSIONS, "response", versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
