"""WriteTxnMarkers (key 27), versions 1 and 2: end transactions in partitions this broker leads.

Sent by transaction coordinators, and by tools that abort a hanging transaction.

- v2 the transaction version: under version 2 a marker must carry a newer epoch than the records
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TypeAlias

from floodmark.apis.access import Access, Needs
from floodmark.apis.authorizer import Operation
from floodmark.apis.context import RequestContext
from floodmark.apis.deferred import Deferred
from floodmark.coordinators.transactions.markers import MARKERS_PER_TURN
from floodmark.coordinators.transactions.ports import Marker
from floodmark.network.request_channel import Waiting
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ACCESS = Access(needs=(Needs(operation=Operation.ALTER, or_operation=Operation.CLUSTER_ACTION),))


_Append: TypeAlias = tuple[Marker, str, WritableTxnMarkerPartitionResult]
_Waiting: TypeAlias = list[tuple[WritableTxnMarkerPartitionResult, Promise[ErrorCode]]]


def handle(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> Deferred[WriteTxnMarkersResponse]:
    results = [_empty_result(entry) for entry in request.markers]
    response = WriteTxnMarkersResponse(markers=results)
    appends = [
        (_marker(entry), topic, partition)
        for entry, result in zip(request.markers, results, strict=True)
        for topic, partition in _partitions(result)
    ]
    if len(appends) > MARKERS_PER_TURN:
        return _append_in_turns(context, response, appends)
    waiting = _append(context, appends)
    return Waiting(_wait(response, waiting)) if waiting else response


def _append(context: RequestContext, appends: list[_Append]) -> _Waiting:
    """Returns the partitions that wait for followers or a flush."""
    transactions = context.services.transactions
    waiting: _Waiting = []
    for marker, topic, partition in appends:
        outcome = transactions.append_marker(topic, partition.partition_index, marker)
        if isinstance(outcome, Promise):
            waiting.append((partition, outcome))
        else:
            partition.error_code = outcome
    return waiting


async def _append_in_turns(
    context: RequestContext, response: WriteTxnMarkersResponse, appends: list[_Append]
) -> Waiting[WriteTxnMarkersResponse]:
    waiting: _Waiting = []
    for first in range(0, len(appends), MARKERS_PER_TURN):
        waiting += _append(context, appends[first : first + MARKERS_PER_TURN])
        await asyncio.sleep(0)
    return Waiting(_wait(response, waiting))


async def _wait(response: WriteTxnMarkersResponse, waiting: _Waiting) -> WriteTxnMarkersResponse:
    for partition, outcome in waiting:
        partition.error_code = await outcome
    return response


def _marker(entry: WritableTxnMarker) -> Marker:
    return Marker(
        entry.producer_id,
        entry.producer_epoch,
        entry.transaction_result,
        entry.coordinator_epoch,
        entry.transaction_version,
    )


def _empty_result(entry: WritableTxnMarker) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=entry.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index)
                    for index in topic.partition_indexes
                ],
            )
            for topic in entry.topics
        ],
    )


def _partitions(
    result: WritableTxnMarkerResult,
) -> Iterator[tuple[str, WritableTxnMarkerPartitionResult]]:
    for topic in result.topics:
        for partition in topic.partitions:
            yield topic.name, partition
