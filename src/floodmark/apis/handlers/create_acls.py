"""CreateAcls (key 30), versions 1 to 3: the controller decides. Refuses without an authorizer."""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.acl_messages import read_acl
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable, Refusal
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

ACCESS = cluster(Operation.ALTER)

_DISABLED = Refusal(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def handle(context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    services = context.services
    refusals: list[Refusal | None]
    if services.authorizer.allows_all:
        refusals = [_DISABLED] * len(request.creations)
    else:
        try:
            refusals = await services.controller.create_acls(
                [read_acl(creation) for creation in request.creations]
            )
        except ControllerUnavailable as problem:
            refusals = [Refusal(problem.error_code, str(problem))] * len(request.creations)
    return CreateAclsResponse(
        results=[
            AclCreationResult()
            if refusal is None
            else AclCreationResult(error_code=refusal.error_code, error_message=refusal.message)
            for refusal in refusals
        ]
    )
