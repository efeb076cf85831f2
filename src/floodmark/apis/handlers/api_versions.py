"""ApiVersions (key 18), versions 0 to 4: the supported APIs and the finalized features.

- v1 throttle time; v3 flexible, the client's software (KIP-511), features (KIP-584)
- v4 features whose lowest version is 0
"""

from __future__ import annotations

import re

from floodmark.apis.access import NOTHING
from floodmark.apis.context import RequestContext
from floodmark.controller.features import SUPPORTED_FEATURES
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_SINCE = 3
FEATURES_FROM_ZERO_SINCE = 4
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

ACCESS = NOTHING


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_SINCE:
        name, version = request.client_software_name, request.client_software_version
        if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.peer.client_software_name = name
        context.peer.client_software_version = version
    features = context.services.image.features
    return ApiVersionsResponse(
        api_keys=_api_versions(context),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
            # Before v4, clients treat a lowest version of 0 as an error (KAFKA-17011).
            if lowest > 0 or context.api_version >= FEATURES_FROM_ZERO_SINCE
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.finalized.items()
            if level > 0
        ],
    )


def refuse_version(context: RequestContext, request: object) -> ApiVersionsResponse:
    """Responds to an unknown version in the oldest format, with the supported ranges."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_versions(context)
    )


def _api_versions(context: RequestContext) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        for key, (lowest, highest) in context.services.api_versions.items()
    ]
