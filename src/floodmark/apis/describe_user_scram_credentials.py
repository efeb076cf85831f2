"""DescribeUserScramCredentials (key 50), version 0: who has credentials, of which mechanisms.

No users, or null, asks for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from floodmark.apis.context import RequestContext
from floodmark.controller.scram import ScramMechanism, credentials
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    known = credentials(context.services.image)
    asked = Counter(user.name for user in request.users or []) or Counter(list(known))
    return DescribeUserScramCredentialsResponse(
        results=[_result(user, times, known.get(user)) for user, times in asked.items()]
    )


def _result(
    user: str, times: int, found: Mapping[ScramMechanism, int] | None
) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {user}",
        )
    if found is None:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(
        user=user,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in found.items()
        ],
    )
