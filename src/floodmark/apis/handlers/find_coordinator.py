"""FindCoordinator (key 10), versions 0 to 6: find the coordinator of a group or transaction.

The coordinator is the leader of the key's partition in an internal topic, which is created on first
use.

- v1 key types: 0 for groups, 1 for transactional ids (2, share groups, is refused)
- v3 flexible; v4 many keys at once; v5 and v6 do not change the messages
"""

from __future__ import annotations

from floodmark.apis.access import Access, Each, Needs, itself
from floodmark.apis.authorizer import Operation, ResourceKind
from floodmark.apis.context import RequestContext
from floodmark.coordinators.java_hash import partition_for
from floodmark.coordinators.ports import CoordinatorError, CoordinatorLog
from floodmark.metadata.image import PartitionImage
from floodmark.network.request_channel import Waiting
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = 0
TRANSACTION = 1
BATCHED_SINCE = 4
NO_NODE = -1

ACCESS = Access(
    needs=(
        Needs(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.GROUP,
            names=lambda context, request: (request.key,) if request.key_type == GROUP else (),
            versions="0-3",
        ),
        Needs(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.TRANSACTIONAL_ID,
            names=lambda context, request: (
                (request.key,) if request.key_type == TRANSACTION else ()
            ),
            versions="0-3",
        ),
    ),
    each=(
        Each(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.GROUP,
            items="coordinator_keys",
            answers="coordinators",
            name=itself,
            applies=lambda context, request, key: request.key_type == GROUP,
            versions="4+",
        ),
        Each(
            operation=Operation.DESCRIBE,
            kind=ResourceKind.TRANSACTIONAL_ID,
            items="coordinator_keys",
            answers="coordinators",
            name=itself,
            applies=lambda context, request, key: request.key_type == TRANSACTION,
            versions="4+",
        ),
    ),
)


def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Waiting[FindCoordinatorResponse]:
    log = _log_for(context, request.key_type)
    if (
        log is not None
        and _keys(context, request)
        and log.topic not in context.services.image.topics
    ):
        return Waiting(_create_and_answer(context, request, log))
    return _answer(context, request, log)


async def _create_and_answer(
    context: RequestContext, request: FindCoordinatorRequest, log: CoordinatorLog
) -> FindCoordinatorResponse:
    try:
        await log.ensure_topic()
    except CoordinatorError as error:
        return _refuse(context, request, error.error_code, str(error))
    return _answer(context, request, log)


def _log_for(context: RequestContext, key_type: int) -> CoordinatorLog | None:
    if key_type == GROUP:
        return context.services.groups.log
    if key_type == TRANSACTION:
        return context.services.transactions.log
    return None


def _answer(
    context: RequestContext, request: FindCoordinatorRequest, log: CoordinatorLog | None
) -> FindCoordinatorResponse:
    if log is None:
        return _refuse(context, request, ErrorCode.INVALID_REQUEST, "Unknown coordinator type.")
    return _respond(context, [_find(context, log, key) for key in _keys(context, request)])


def _keys(context: RequestContext, request: FindCoordinatorRequest) -> list[str]:
    return request.coordinator_keys if context.api_version >= BATCHED_SINCE else [request.key]


def _find(context: RequestContext, log: CoordinatorLog, key: str) -> Coordinator:
    services = context.services
    partition = services.image.partition(log.topic, partition_for(key, log.partition_count))
    if partition is not None:
        coordinator = _next_leader(partition) if context.is_librdkafka else partition.leader
        for node_id, host, port, _ in services.broker_endpoints(
            context.peer.listener_name, with_departed=context.is_librdkafka
        ):
            if node_id == coordinator:
                return Coordinator(key=key, node_id=node_id, host=host, port=port)
    return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)


def _next_leader(partition: PartitionImage) -> int:
    """The leader. If there is none, the last in-sync replica, the only one that can be next.

    After three times COORDINATOR_NOT_AVAILABLE, within half a second, a transactional producer of
    librdkafka no longer asks, and waits for ever. A coordinator that it cannot reach makes it ask
    every second. Kafka names a dead broker until its session ends.
    """
    if partition.leader == NO_LEADER and len(partition.isr) == 1:
        return partition.isr[0]
    return partition.leader


def _nobody(key: str, error_code: ErrorCode, text: str | None) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        error_code=error_code,
        error_message=text or error_code.message,
    )


def _refuse(
    context: RequestContext, request: FindCoordinatorRequest, error_code: ErrorCode, text: str
) -> FindCoordinatorResponse:
    return _respond(context, [_nobody(key, error_code, text) for key in _keys(context, request)])


def _respond(context: RequestContext, found: list[Coordinator]) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    one = found[0]
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )
