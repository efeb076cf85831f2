"""DeleteGroups (key 42), versions 0 to 2: delete groups without members, and their offsets.

- v2 flexible
"""

from __future__ import annotations

from floodmark.apis.access import Access, Each, itself
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.apis.group_requests import when_all
from floodmark.network.request_channel import Waiting
from floodmark.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

ACCESS = Access(
    each=(
        Each(
            operation=Operation.DELETE,
            kind=ResourceKind.GROUP,
            items="groups_names",
            answers="results",
            name=itself,
        ),
    )
)


def handle(
    context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Waiting[DeleteGroupsResponse]:
    groups = context.services.groups
    answers = [groups.delete_group(group_id) for group_id in dict.fromkeys(request.groups_names)]
    return when_all(answers, lambda results: DeleteGroupsResponse(results=results))
