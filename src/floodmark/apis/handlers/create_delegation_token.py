"""CreateDelegationToken (key 38), versions 1 to 3: a token for its requester, or for another user.

- v3: the owner of the token (KIP-373).

The order of refusals is Kafka's: connection, right to act for the owner, renewers, settings.
"""

from __future__ import annotations

from floodmark.apis.access import Access
from floodmark.apis.authorizer import Operation, Resource, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.delegation_tokens import (
    FIRST_VERSION_WITH_REQUESTER,
    NO_TIME_MS,
    USER,
    TokenRefused,
    TokenWish,
    check_allowed,
    requester_of,
    service_of,
)
from floodmark.network.principal import Principal
from floodmark.security.delegation_tokens import DelegationToken
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

ACCESS = Access(inside=("CREATE_TOKENS on the USER, for another owner",))


async def handle(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester = requester_of(context)
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        issue_timestamp_ms=NO_TIME_MS,
        expiry_timestamp_ms=NO_TIME_MS,
        max_timestamp_ms=NO_TIME_MS,
    )
    if context.api_version >= FIRST_VERSION_WITH_REQUESTER:
        response.token_requester_principal_type = requester.kind
        response.token_requester_principal_name = requester.name
    try:
        token = await _create(context, request, owner, requester)
    except TokenRefused as refused:
        response.error_code = refused.error_code
        return response
    response.issue_timestamp_ms = token.issue_ms
    response.expiry_timestamp_ms = token.expiry_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token.token_id
    response.hmac = service_of(context).hmac_of(token)
    return response


async def _create(
    context: RequestContext,
    request: CreateDelegationTokenRequest,
    owner: Principal,
    requester: Principal,
) -> DelegationToken:
    check_allowed(context)
    guard = context.guard
    if owner != requester and guard is not None:
        user = Resource(ResourceKind.USER, str(owner))
        if not guard.allows(Operation.CREATE_TOKENS, user):
            raise TokenRefused(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    # The token logs in as the user of that name. Kafka also accepts owners of other types, but then
    # ACLs on such an owner would not protect the user.
    if owner.kind != USER or any(one.principal_type != USER for one in request.renewers):
        raise TokenRefused(ErrorCode.INVALID_PRINCIPAL_TYPE)
    renewers = tuple(f"{one.principal_type}:{one.principal_name}" for one in request.renewers)
    wish = TokenWish(str(owner), str(requester), renewers, request.max_lifetime_ms)
    return await service_of(context).create(wish)
