"""DeleteAcls (key 31), versions 1 to 3: the controller decides. Refuses without an authorizer."""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.acl_messages import read_filter
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable, Refusal
from floodmark.security.acls import Acl
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

ACCESS = cluster(Operation.ALTER)

_DISABLED = Refusal(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def handle(context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    services = context.services
    outcomes: list[list[Acl] | Refusal]
    if services.authorizer.allows_all:
        outcomes = [_DISABLED for _ in request.filters]
    else:
        try:
            outcomes = await services.controller.delete_acls(
                [read_filter(one) for one in request.filters]
            )
        except ControllerUnavailable as problem:
            outcomes = [Refusal(problem.error_code, str(problem)) for _ in request.filters]
    return DeleteAclsResponse(filter_results=[_result(outcome) for outcome in outcomes])


def _result(outcome: list[Acl] | Refusal) -> DeleteAclsFilterResult:
    if isinstance(outcome, Refusal):
        return DeleteAclsFilterResult(error_code=outcome.error_code, error_message=outcome.message)
    return DeleteAclsFilterResult(matching_acls=[_matching(acl) for acl in outcome])


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    pattern, rule = acl
    return DeleteAclsMatchingAcl(
        resource_type=pattern.kind,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
