"""AlterClientQuotas (key 49), versions 0 to 1: set and remove quotas of users, clients, addresses.

Quotas are kept and told, they do not act yet. v1 is flexible.
"""

from __future__ import annotations

from floodmark.apis.context import RequestContext
from floodmark.apis.decisions import decided
from floodmark.controller.quotas import QuotaAlteration, QuotaAnswer, QuotaStep
from floodmark.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)


async def handle(
    context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    wanted = [
        QuotaAlteration(
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [QuotaStep(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    answers = await decided(
        context.services.controller.alter_client_quotas(
            wanted, validate_only=request.validate_only
        ),
        lambda code, text: [QuotaAnswer(one.entity, code, text) for one in wanted],
    )
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=answer.error_code,
                error_message=answer.message,
                entity=[
                    ResponseEntityData(entity_type=entity_type, entity_name=name)
                    for entity_type, name in answer.entity
                ],
            )
            for answer in answers
        ]
    )
