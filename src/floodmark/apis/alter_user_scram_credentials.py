"""AlterUserScramCredentials (key 51), version 0: set and delete SCRAM credentials of users."""

from __future__ import annotations

from floodmark.apis.context import RequestContext
from floodmark.apis.decisions import decided
from floodmark.controller.scram import ScramAnswer, ScramDeletion, ScramUpsertion
from floodmark.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    deletions = [ScramDeletion(one.name, one.mechanism) for one in request.deletions]
    upsertions = [
        ScramUpsertion(
            one.name, one.mechanism, one.iterations, bytes(one.salt), bytes(one.salted_password)
        )
        for one in request.upsertions
    ]
    users = dict.fromkeys([*(one.user for one in deletions), *(one.user for one in upsertions)])
    answers = await decided(
        context.services.controller.alter_scram_credentials(deletions, upsertions),
        lambda code, text: [ScramAnswer(user, code, text) for user in users],
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=answer.user, error_code=answer.error_code, error_message=answer.message
            )
            for answer in answers
        ]
    )
