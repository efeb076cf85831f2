"""DescribeClientQuotas (key 48), versions 0 to 1: the quotas that match a filter.

Each component names a type of entity: with a name, with its default, or with either. An entity has
to match them all; a strict filter also forbids other types. v1 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from floodmark.apis.context import RequestContext
from floodmark.controller.quotas import CLIENT_ID, IP, USER, Entity, client_quotas
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class MatchType(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def handle(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    refused = _refuse(request.components)
    if refused is not None:
        return refused
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[
                    EntityData(entity_type=entity_type, entity_name=name)
                    for entity_type, name in entity.items()
                ],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in client_quotas(context.services.image)
            if _matches(entity, request.components, request.strict)
        ]
    )


def _matches(entity: Entity, components: Sequence[ComponentData], strict: bool) -> bool:
    if strict and len(entity) != len(components):
        return False
    return all(
        component.entity_type in entity
        and (
            component.match_type == MatchType.SPECIFIED
            or entity[component.entity_type] == component.match
        )
        for component in components
    )


def _refuse(components: Sequence[ComponentData]) -> DescribeClientQuotasResponse | None:
    types = [component.entity_type for component in components]
    if not set(types) <= {USER, CLIENT_ID, IP}:
        unknown = next(one for one in types if one not in (USER, CLIENT_ID, IP))
        code = ErrorCode.UNSUPPORTED_VERSION if unknown else ErrorCode.INVALID_REQUEST
        return _refused(code, f"Unsupported entity type {unknown}")
    if len(set(types)) != len(types):
        return _refused(
            ErrorCode.INVALID_REQUEST, "An entity type cannot appear more than once in the filter."
        )
    if IP in types and len(types) > 1:
        return _refused(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    for component in components:
        if component.match_type not in set(MatchType):
            return _refused(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if (component.match is None) is (component.match_type == MatchType.EXACT):
            return _refused(
                ErrorCode.INVALID_REQUEST,
                "A match string belongs to an exact match, and to no other.",
            )
    return None


def _refused(code: ErrorCode, text: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None)
