"""DescribeDelegationToken (key 41), versions 1 to 3: the tokens of some owners, or all.

- v3: who requested a token (KIP-373).

Owners, requesters and renewers see their tokens, secrets included. Others need a right.
"""

from __future__ import annotations

from floodmark.apis.access import Access
from floodmark.apis.authorizer import Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.delegation_tokens import (
    FIRST_VERSION_WITH_REQUESTER,
    TokenRefused,
    check_allowed,
    principal_of,
    requester_of,
    service_of,
)
from floodmark.security.delegation_tokens import DelegationToken
from floodmark.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

ACCESS = Access(
    inside=(
        "hides the tokens of others without DESCRIBE on the DELEGATION_TOKEN or DESCRIBE_TOKENS "
        "on the USER",
    )
)


def handle(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    try:
        check_allowed(context)
        service = service_of(context)
    except TokenRefused as refused:
        return DescribeDelegationTokenResponse(error_code=refused.error_code)
    owners = None
    if request.owners is not None:
        owners = {f"{one.principal_type}:{one.principal_name}" for one in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(context, token, service.hmac_of(token))
            for token in service.all()
            if _is_wanted(token, owners) and _is_seen(context, token)
        ]
    )


def _is_wanted(token: DelegationToken, owners: set[str] | None) -> bool:
    """As in Kafka, naming an owner also finds what it has requested or may renew."""
    return owners is None or any(token.concerns(owner) for owner in owners)


def _is_seen(context: RequestContext, token: DelegationToken) -> bool:
    guard = context.guard
    if guard is None or token.concerns(str(requester_of(context))):
        return True
    as_token = Resource(ResourceKind.DELEGATION_TOKEN, token.token_id)
    as_user = Resource(ResourceKind.USER, token.owner)
    return guard.would_allow(Operation.DESCRIBE, as_token) or guard.would_allow(
        Operation.DESCRIBE_TOKENS, as_user
    )


def _described(
    context: RequestContext, token: DelegationToken, token_hmac: bytes
) -> DescribedDelegationToken:
    owner, requester = principal_of(token.owner), principal_of(token.requester)
    renewers = [principal_of(renewer) for renewer in token.renewers]
    described = DescribedDelegationToken(
        principal_type=owner.kind,
        principal_name=owner.name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.kind, principal_name=one.name)
            for one in renewers
        ],
    )
    if context.api_version >= FIRST_VERSION_WITH_REQUESTER:
        described.token_requester_principal_type = requester.kind
        described.token_requester_principal_name = requester.name
    return described
