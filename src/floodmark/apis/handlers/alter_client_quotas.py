"""AlterClientQuotas (key 49), versions 0 and 1: the controller decides."""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable, Refusal
from floodmark.controller.quotas import QuotaAlteration
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)

ACCESS = cluster(Operation.ALTER_CONFIGS)


async def handle(
    context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    alterations = [_alteration(entry) for entry in request.entries]
    try:
        refusals = await context.services.controller.alter_client_quotas(
            alterations, validate_only=request.validate_only
        )
    except ControllerUnavailable as problem:
        refusals = [Refusal(problem.error_code, str(problem)) for _ in alterations]
    return AlterClientQuotasResponse(
        entries=[
            _answer(entry, refusal)
            for entry, refusal in zip(request.entries, refusals, strict=True)
        ]
    )


def _alteration(entry: RequestEntryData) -> QuotaAlteration:
    return QuotaAlteration(
        [(part.entity_type, part.entity_name) for part in entry.entity],
        [(step.key, None if step.remove else step.value) for step in entry.ops],
    )


def _answer(entry: RequestEntryData, refusal: Refusal | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=ErrorCode.NONE if refusal is None else refusal.error_code,
        error_message=None if refusal is None else refusal.message,
        entity=[
            ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ],
    )
