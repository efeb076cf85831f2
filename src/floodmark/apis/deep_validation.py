"""Validates produced records for topics that inspect or recompress batches.

Called by `handlers.produce` before it appends anything. Plain topics need no validation. Small
batches are validated immediately, large ones in slices and threads. The append rechecks everything
that may have changed meanwhile: leadership, the topic's rules, the producer's sequence.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, TypeAlias

from floodmark.apis.context import RequestContext
from floodmark.apis.slices import in_slices
from floodmark.apis.transactional_produce import is_closed, topic_name
from floodmark.records.batch import writable
from floodmark.replication import leading
from floodmark.replication.outcomes import DeepValidation
from floodmark.replication.replica_manager import VALIDATED_AT_ONCE_MS
from floodmark.steps import Steps, Unfinished, begin
from floodmark.wire.messages.produce import ProduceRequest

DeepValidations: TypeAlias = dict[int, DeepValidation]
"""By the id of the request's part for the partition: a request may name a partition twice."""


def validate_deeply(
    context: RequestContext, request: ProduceRequest
) -> DeepValidations | Coroutine[Any, Any, DeepValidations]:
    validated: DeepValidations = {}
    clock = context.services.clock
    begun_ms = 0.0
    parts = _not_plain(context, request)
    for part, steps in parts:
        begun_ms = begun_ms or clock.monotonic_ms()
        left_ms = VALIDATED_AT_ONCE_MS - (clock.monotonic_ms() - begun_ms)
        work = begin(steps, clock.monotonic_ms, left_ms)
        if isinstance(work, Unfinished):
            return _finish(context, validated, part, work, parts)
        validated[part] = work
    return validated


def _not_plain(
    context: RequestContext, request: ProduceRequest
) -> Iterator[tuple[int, Steps[DeepValidation]]]:
    services = context.services
    for topic in request.topic_data:
        name = topic_name(context, topic)
        if name is None or is_closed(context, name):
            continue
        for partition in topic.partition_data:
            replica = services.replicas.find((name, partition.index))
            if replica is not None and not replica.rules.is_plain:
                batch = writable(partition.records or b"")
                yield id(partition), leading.validating(replica, batch, services.clock.now_ms())


async def _finish(
    context: RequestContext,
    validated: DeepValidations,
    part: int,
    work: Unfinished[DeepValidation],
    rest: Iterator[tuple[int, Steps[DeepValidation]]],
) -> DeepValidations:
    """One after the other: a request takes one share of the loop, however many partitions it
    names."""
    clock = context.services.clock
    validated[part] = await in_slices(work, clock)
    for next_part, steps in rest:
        validated[next_part] = await in_slices(Unfinished(steps, None), clock)
    return validated
