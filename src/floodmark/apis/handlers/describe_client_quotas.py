"""DescribeClientQuotas (key 48), versions 0 and 1: find quotas by filter."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import Refusal
from floodmark.metadata.quota_nodes import quotas_in
from floodmark.security.quota_entities import DEFAULT, ENTITY_TYPES, IP, QuotaEntity
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

ACCESS = cluster(Operation.DESCRIBE_CONFIGS)


class MatchType(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def handle(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    wanted = _filter(request.components)
    if isinstance(wanted, Refusal):
        return DescribeClientQuotasResponse(
            error_code=wanted.error_code, error_message=wanted.message, entries=None
        )
    return DescribeClientQuotasResponse(
        entries=[
            _entry(entity, values)
            for entity, values in quotas_in(context.services.image.configs).items()
            if _matches(entity, wanted, request.strict)
        ]
    )


def _filter(components: Iterable[ComponentData]) -> dict[str, str | None] | Refusal:
    """The required name of each part; None for any."""
    wanted: dict[str, str | None] = {}
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            return _invalid("Invalid empty entity type.")
        if entity_type in wanted:
            return _invalid(
                f"Entity type {entity_type} cannot appear more than once in the filter."
            )
        if entity_type not in ENTITY_TYPES:
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        refusal = _check_match(component)
        if refusal is not None:
            return refusal
        is_default = component.match_type == MatchType.DEFAULT
        wanted[entity_type] = DEFAULT if is_default else component.match
    if IP in wanted and len(wanted) > 1:
        return _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return wanted


def _check_match(component: ComponentData) -> Refusal | None:
    if component.match_type == MatchType.EXACT:
        if component.match is None:
            return _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type in (MatchType.DEFAULT, MatchType.SPECIFIED):
        if component.match is not None:
            name = MatchType(component.match_type).name
            return _invalid(
                f"Request specified MATCH_TYPE_{name}, but also specified a match string."
            )
    else:
        return _invalid(f"Unknown match type {component.match_type}")
    return None


def _matches(entity: QuotaEntity, wanted: dict[str, str | None], strict: bool) -> bool:
    parts = entity.parts
    if strict and len(parts) != len(wanted):
        return False
    return all(
        entity_type in parts and name in (None, parts[entity_type])
        for entity_type, name in wanted.items()
    )


def _entry(entity: QuotaEntity, values: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[
            EntityData(entity_type=entity_type, entity_name=name or None)
            for entity_type, name in entity.parts.items()
        ],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
