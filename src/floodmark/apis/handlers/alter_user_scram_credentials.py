"""AlterUserScramCredentials (key 51), version 0: set and delete SCRAM credentials.

The client sends the salted password, never the password. The stored data does not allow a login.
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.controller_outcomes import decided
from floodmark.controller.users import MECHANISM_NUMBERS, CredentialAnswer, CredentialChange
from floodmark.security.sasl import SCRAM_HASHES
from floodmark.security.scram_credentials import ScramCredential, credential_of
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

ACCESS = cluster(Operation.ALTER)


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    changes = [CredentialChange(x.name, x.mechanism, None) for x in request.deletions]
    changes += [CredentialChange(x.name, x.mechanism, _credential(x)) for x in request.upsertions]
    users = dict.fromkeys(change.user for change in changes)
    answers = await decided(
        context.services.controller.alter_scram_credentials(changes),
        lambda code, text: [CredentialAnswer(user, code, text) for user in users],
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=answer.user,
                error_code=answer.error_code,
                error_message=None if answer.error_code is ErrorCode.NONE else answer.message,
            )
            for answer in answers
        ]
    )


def _credential(upsertion: ScramCredentialUpsertion) -> ScramCredential:
    # Nothing is stored for an unknown mechanism: the controller refuses it.
    hash_name = SCRAM_HASHES[MECHANISM_NUMBERS.get(upsertion.mechanism, MECHANISM_NUMBERS[1])]
    return credential_of(
        hash_name,
        bytes(upsertion.salted_password),
        bytes(upsertion.salt),
        upsertion.iterations,
    )
