"""The cluster's feature levels: supported, finalized, and how to change them.

Called by `admin.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.connection import SOFTWARE_NAME
from floodmark.client.errors import raise_for_code
from floodmark.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from floodmark.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from floodmark.wire.numbers import UpgradeType

# Earlier versions only allow or forbid a downgrade, and cannot validate.
FIRST_VERSION_WITH_UPGRADE_TYPE = 1


@dataclass(frozen=True, slots=True)
class Features:
    """Lowest and highest supported level and finalized level, by name."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int


async def describe(cluster: Cluster) -> Features:
    async def attempt() -> Features:
        response: ApiVersionsResponse = await cluster.request(
            ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="0")
        )
        raise_for_code(response.error_code)
        return Features(
            {f.name: (f.min_version, f.max_version) for f in response.supported_features},
            {f.name: f.max_version_level for f in response.finalized_features},
            response.finalized_features_epoch,
        )

    return await cluster.retry(attempt)


async def update(
    cluster: Cluster,
    levels: Mapping[str, int],
    *,
    upgrade_type: UpgradeType = UpgradeType.UPGRADE,
    validate_only: bool = False,
) -> None:
    """Changes all of these features to their levels, or none. 0 turns a feature off."""

    async def attempt() -> None:
        connection = await cluster.controller_connection()
        by_type = connection.version_for(UpdateFeaturesRequest) >= FIRST_VERSION_WITH_UPGRADE_TYPE
        downgrade = upgrade_type is not UpgradeType.UPGRADE
        request = UpdateFeaturesRequest(
            timeout_ms=int(cluster.settings.request_timeout_ms),
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=level,
                    allow_downgrade=downgrade and not by_type,
                    upgrade_type=upgrade_type if by_type else UpgradeType.UPGRADE,
                )
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        response: UpdateFeaturesResponse = await connection.request(request)
        raise_for_code(response.error_code, response.error_message)
        for result in response.results:
            raise_for_code(result.error_code, result.error_message)

    await cluster.retry(attempt)
