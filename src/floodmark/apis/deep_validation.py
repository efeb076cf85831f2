"""Validates the records of a produce for topics that look into batches or compress them again.

Called by `handlers.produce` before it appends anything. Plain topics need nothing; small batches
are validated at once, large ones in slices and threads. The append checks again everything that may
have changed meanwhile: leadership, the topic's rules, the producer's sequence.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, TypeAlias

from floodmark.apis.context import RequestContext
from floodmark.apis.slices import in_slices
from floodmark.apis.transactional_produce import is_closed, topic_name
from floodmark.records.batch import writable
from floodmark.replication.replica import Preparation
from floodmark.replication.replica_manager import PREPARED_AT_ONCE_MS
from floodmark.steps import Steps, Unfinished, begin
from floodmark.wire.messages.produce import ProduceRequest

Preparations: TypeAlias = dict[int, Preparation]
"""By the id of the request's part for the partition: a request may name a partition twice."""


def prepare(
    context: RequestContext, request: ProduceRequest
) -> Preparations | Coroutine[Any, Any, Preparations]:
    prepared: Preparations = {}
    clock = context.services.clock
    begun_ms = 0.0
    parts = _not_plain(context, request)
    for part, steps in parts:
        begun_ms = begun_ms or clock.monotonic_ms()
        left_ms = PREPARED_AT_ONCE_MS - (clock.monotonic_ms() - begun_ms)
        work = begin(steps, clock.monotonic_ms, left_ms)
        if isinstance(work, Unfinished):
            return _finish(context, prepared, part, work, parts)
        prepared[part] = work
    return prepared


def _not_plain(
    context: RequestContext, request: ProduceRequest
) -> Iterator[tuple[int, Steps[Preparation]]]:
    services = context.services
    for topic in request.topic_data:
        name = topic_name(context, topic)
        if name is None or is_closed(context, name):
            continue
        for partition in topic.partition_data:
            replica = services.replicas.find((name, partition.index))
            if replica is not None and not replica.rules.is_plain:
                batch = writable(partition.records or b"")
                yield id(partition), replica.preparing(batch, services.clock.now_ms())


async def _finish(
    context: RequestContext,
    prepared: Preparations,
    part: int,
    work: Unfinished[Preparation],
    rest: Iterator[tuple[int, Steps[Preparation]]],
) -> Preparations:
    """One after the other: a request takes one share of the loop, however many partitions it
    names."""
    clock = context.services.clock
    prepared[part] = await in_slices(work, clock)
    for next_part, steps in rest:
        prepared[next_part] = await in_slices(Unfinished(steps, None), clock)
    return prepared
