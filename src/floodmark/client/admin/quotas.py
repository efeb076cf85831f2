"""Reads and changes client quotas. `admin.py` exposes these functions as methods."""

from __future__ import annotations

from collections.abc import Mapping

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.errors import raise_for_code
from floodmark.security.quota_entities import CLIENT_ID, DEFAULT, IP, USER, QuotaEntity
from floodmark.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from floodmark.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
)

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


async def describe(
    cluster: Cluster, wanted: Mapping[str, str | None], *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """`wanted` maps each part an entity must have to its name, or None for any name."""
    message = DescribeClientQuotasRequest(
        components=[_component(entity_type, name) for entity_type, name in wanted.items()],
        strict=strict,
    )

    async def attempt() -> dict[QuotaEntity, dict[str, float]]:
        connection = await cluster.any_connection()
        response: DescribeClientQuotasResponse = await connection.request(message)
        raise_for_code(response.error_code, response.error_message)
        return {
            _entity(entry): {value.key: value.value for value in entry.values}
            for entry in response.entries or ()
        }

    return await cluster.retry(attempt)


async def alter(
    cluster: Cluster,
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """A value of None removes a quota."""
    message = AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[
                    RequestEntityData(entity_type=entity_type, entity_name=name or None)
                    for entity_type, name in entity.parts.items()
                ],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes.items()
                ],
            )
        ],
        validate_only=validate_only,
    )

    async def attempt() -> None:
        connection = await cluster.controller_connection()
        response: AlterClientQuotasResponse = await connection.request(message)
        for entry in response.entries:
            raise_for_code(entry.error_code, entry.error_message)

    await cluster.retry(attempt)


def _component(entity_type: str, name: str | None) -> ComponentData:
    if name is None:
        return ComponentData(entity_type=entity_type, match_type=_SPECIFIED, match=None)
    if name == DEFAULT:
        return ComponentData(entity_type=entity_type, match_type=_DEFAULT, match=None)
    return ComponentData(entity_type=entity_type, match_type=_EXACT, match=name)


def _entity(entry: EntryData) -> QuotaEntity:
    parts = {part.entity_type: part.entity_name or DEFAULT for part in entry.entity}
    return QuotaEntity(parts.get(USER), parts.get(CLIENT_ID), parts.get(IP))
