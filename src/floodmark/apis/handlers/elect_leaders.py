"""ElectLeaders (key 43), versions 0 to 2: elect preferred leaders, or any leader at all.

A null list means all partitions. The response then lists only those that needed an election.

- v1 unclean elections, for partitions without a leader (KIP-460)
- v2 flexible
"""

from __future__ import annotations

from collections import defaultdict

from floodmark.apis.access import cluster
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.elections import ElectionAnswer
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from floodmark.wire.numbers import ElectionType

ERROR_FOR_ALL_SINCE = 1

ACCESS = cluster(Operation.ALTER)


async def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if request.election_type not in set(ElectionType):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    wanted = None
    if request.topic_partitions is not None:
        wanted = [
            (topic.topic, index) for topic in request.topic_partitions for index in topic.partitions
        ]
    error_for_all = ErrorCode.NONE
    try:
        answers = await context.services.controller.elect_leaders(
            ElectionType(request.election_type), wanted
        )
    except ControllerUnavailable as problem:
        if context.api_version >= ERROR_FOR_ALL_SINCE:
            error_for_all = problem.error_code
        answers = [
            ElectionAnswer(topic, index, problem.error_code, str(problem))
            for topic, index in wanted or []
        ]
    by_topic: dict[str, list[PartitionResult]] = defaultdict(list)
    for answer in answers:
        by_topic[answer.topic].append(
            PartitionResult(
                partition_id=answer.partition,
                error_code=answer.error_code,
                error_message=answer.message,
            )
        )
    return ElectLeadersResponse(
        error_code=error_for_all,
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=results)
            for topic, results in by_topic.items()
        ],
    )
