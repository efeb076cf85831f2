"""UpdateMetadata (key 6), versions 5 to 8: the controller announces live brokers and changes.

- v5 broker epoch, partitions by topic; v6 flexible; v7 topic ids; v8 KRaft migrations (not served)
"""

from __future__ import annotations

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

ACCESS = cluster(Operation.CLUSTER_ACTION)


async def handle(context: RequestContext, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    error_code = await context.services.control.update_metadata(request)
    return UpdateMetadataResponse(error_code=error_code)
