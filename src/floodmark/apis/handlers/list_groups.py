"""ListGroups (key 16), versions 0 to 5: the groups this broker coordinates.

- v3 flexible; v4 filter by state (KIP-518); v5 filter by type (KIP-848)
"""

from __future__ import annotations

from floodmark.apis.access import Access, Hides
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

ACCESS = Access(
    answer=(
        Hides(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.GROUP,
            items="groups",
            name="group_id",
            unless_cluster=Operation.DESCRIBE,
        ),
    )
)


def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    error_code, groups = context.services.groups.list_groups(
        request.states_filter, request.types_filter
    )
    return ListGroupsResponse(error_code=error_code, groups=groups)
