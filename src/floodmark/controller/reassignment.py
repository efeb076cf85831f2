"""Decisions: which brokers hold a partition (AlterPartitionReassignments). PURE.

A cluster of one has nowhere to move a partition to: what can be asked for is the assignment that is
there already, which is done at once, and all else is refused in Kafka 4.3's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floodmark.controller.assignment import place_one_manually
from floodmark.controller.decision import Decision, Refusal, View
from floodmark.metadata.image import PartitionImage
from floodmark.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Reassignment:
    """Where a partition is to be; without replicas, a move under way is to be called off."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentAnswer:
    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def reassign_partitions(
    view: View, wanted: Sequence[Reassignment], *, allow_factor_change: bool = True
) -> Decision[list[ReassignmentAnswer]]:
    answers = []
    for one in wanted:
        refusal = _why_not(view, one, allow_factor_change) or Refusal(ErrorCode.NONE)
        answers.append(ReassignmentAnswer(one.topic, one.partition, *refusal))
    return Decision(answers)


def _why_not(view: View, wanted: Reassignment, allow_factor_change: bool) -> Refusal | None:
    topic = view.image.topics.get(wanted.topic)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find a topic named {wanted.topic}.",
        )
    partition = view.image.partition(wanted.topic, wanted.partition)
    if partition is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {wanted.topic}:{wanted.partition}.",
        )
    if wanted.replicas is None:
        return Refusal(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        )
    return _why_not_there(view, wanted.partition, partition, wanted.replicas, allow_factor_change)


def _why_not_there(
    view: View,
    index: int,
    partition: PartitionImage,
    replicas: tuple[int, ...],
    allow_factor_change: bool,
) -> Refusal | None:
    placed = place_one_manually(view.image, index, replicas, None)
    if isinstance(placed, Refusal):
        return placed
    if not allow_factor_change and len(replicas) != len(partition.replicas):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(partition.replicas)} to {len(replicas)}",
        )
    if replicas != partition.replicas:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Replicas are not moved between brokers: clusters of several are not there yet.",
        )
    return None
