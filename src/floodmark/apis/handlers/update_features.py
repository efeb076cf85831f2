"""UpdateFeatures (key 57), versions 0 to 2: change the cluster's finalized features (KIP-584).

All or nothing: if one feature cannot change, none does, and the first error stands for the whole
request.

- v1 the kind of downgrade instead of a flag; validation only
- v2 drops the results per feature
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.features import FeatureUpdate
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from floodmark.wire.numbers import UpgradeType

LAST_VERSION_WITH_RESULTS = 1

ACCESS = cluster(Operation.ALTER)


async def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    updates = [_update(context.api_version, key) for key in request.feature_updates]
    try:
        answers = await context.services.controller.update_features(
            updates, validate_only=request.validate_only
        )
    except ControllerUnavailable as problem:
        return UpdateFeaturesResponse(error_code=problem.error_code, error_message=str(problem))
    for answer in answers:
        if answer.error_code is not ErrorCode.NONE:
            return UpdateFeaturesResponse(
                error_code=answer.error_code,
                error_message="The update failed for all features since the following feature had "
                f"an error: {answer.message}",
            )
    results = [UpdatableFeatureResult(feature=answer.name) for answer in answers]
    return UpdateFeaturesResponse(
        results=results if context.api_version <= LAST_VERSION_WITH_RESULTS else []
    )


def _update(version: int, key: FeatureUpdateKey) -> FeatureUpdate:
    upgrade_type = key.upgrade_type
    if version == 0 and key.allow_downgrade:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE
    return FeatureUpdate(key.feature, key.max_version_level, upgrade_type)
