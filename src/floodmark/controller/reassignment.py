"""Decisions: moving partitions to other brokers (AlterPartitionReassignments). PURE.

A moving partition has all its replicas, old and new, the target ones first. Added replicas catch up
with the leader and join the in-sync replicas. When the last one has joined, the same step completes
the move: the others go, perhaps including the leader. All of this is stored with the topic, so that
the next controller can continue. Refusals use Kafka 4.3's wording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from floodmark.controller.assignment import place_one_manually
from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.elections import elect, led_by, with_next_epochs
from floodmark.controller.eligible_replicas import with_isr
from floodmark.controller.partition_states import (
    is_unclean_allowed,
    min_in_sync_replicas,
    store_partitions,
)
from floodmark.metadata.image import PartitionImage
from floodmark.vocabulary import NO_LEADER, TopicPartition
from floodmark.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition's target replicas. Without replicas, cancels the move in progress."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentAnswer:
    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def target_of(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas once the move in progress is complete."""
    return _without(partition.replicas, partition.removing_replicas)


def reassign_partitions(
    view: View, wanted: Sequence[Reassignment], *, allow_factor_change: bool = True
) -> Decision[list[ReassignmentAnswer]]:
    answers: list[ReassignmentAnswer] = []
    changed: dict[TopicPartition, PartitionImage] = {}
    for one in wanted:
        key = (one.topic, one.partition)
        outcome = _decide(view, one, allow_factor_change)
        if key in changed:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "The partition is named twice.")
        if isinstance(outcome, Refusal):
            answers.append(ReassignmentAnswer(*key, *outcome))
            continue
        answers.append(ReassignmentAnswer(*key))
        if outcome != view.image.partition(*key):
            changed[key] = outcome
    operations, change = store_partitions(view.image, changed)
    return Decision(answers, operations, change)


def complete_all(view: View) -> Decision[None]:
    """Completes moves whose last step was not stored, or only in part."""
    changed: dict[TopicPartition, PartitionImage] = {}
    for name, topic in view.image.topics.items():
        for index, partition in enumerate(topic.partitions):
            after = completed(view, name, partition)
            if after is not partition:
                changed[name, index] = after
    operations, change = store_partitions(view.image, changed)
    return Decision(None, operations, change)


def completed(view: View, topic: str, partition: PartitionImage) -> PartitionImage:
    """The partition on its new replicas alone, if all are in sync. Otherwise unchanged."""
    target = target_of(partition)
    if not is_moving(partition) or not set(target) <= set(partition.isr):
        return partition
    settled = _on(view, topic, partition, target)
    if settled.leader in target or settled.leader == NO_LEADER:
        return with_next_epochs(settled)
    return elect(settled, view.image, unclean_allowed=False) or partition


def _decide(
    view: View, wanted: Reassignment, allow_factor_change: bool
) -> PartitionImage | Refusal:
    if wanted.topic not in view.image.topics:
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
        return _cancel(view, wanted, partition)
    origin = _without(partition.replicas, partition.adding_replicas)
    placed = place_one_manually(view.image, wanted.partition, wanted.replicas, None)
    if isinstance(placed, Refusal):
        return placed
    if not allow_factor_change and len(wanted.replicas) != len(origin):
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(origin)} to {len(wanted.replicas)}",
        )
    return _begin(view, wanted, partition, origin)


def _begin(
    view: View, wanted: Reassignment, partition: PartitionImage, origin: tuple[int, ...]
) -> PartitionImage | Refusal:
    """Replicas that an earlier move was adding, and this one does not want, go immediately."""
    target = wanted.replicas or ()
    replicas = target + _without(origin, target)
    if replicas == partition.replicas and target == target_of(partition):
        return partition
    begun = _on(view, wanted.topic, partition, replicas)._replace(
        adding_replicas=_without(replicas, origin), removing_replicas=_without(replicas, target)
    )
    if not begun.isr:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "None of the replicas that would stay is in sync.",
        )
    if begun.leader not in (*replicas, NO_LEADER):
        elected = elect(begun, view.image, unclean_allowed=False)
        begun = elected or led_by(begun, NO_LEADER, begun.isr)
    else:
        begun = with_next_epochs(begun)
    return _at_once(view, wanted.topic, partition, begun)


def _at_once(
    view: View, topic: str, before: PartitionImage, begun: PartitionImage
) -> PartitionImage:
    """A move that needs no catching up completes in the step that starts it."""
    done = completed(view, topic, begun)
    if done is begun:
        return begun
    return done._replace(
        leader_epoch=before.leader_epoch + 1, partition_epoch=before.partition_epoch + 1
    )


def _cancel(
    view: View, wanted: Reassignment, partition: PartitionImage
) -> PartitionImage | Refusal:
    if not is_moving(partition):
        return Refusal(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        )
    origin = _without(partition.replicas, partition.adding_replicas)
    back = _on(view, wanted.topic, partition, origin)
    if not back.isr:
        if is_unclean_allowed(view, wanted.topic):
            elected = elect(back, view.image, unclean_allowed=True)
            if elected is not None:
                return elected
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {wanted.topic}:{wanted.partition} because "
            "it would require an unclean leader election.",
        )
    if back.leader in (*origin, NO_LEADER):
        return with_next_epochs(back)
    elected = elect(back, view.image, unclean_allowed=False)
    return elected or led_by(back, NO_LEADER, back.isr)


def _on(
    view: View, topic: str, partition: PartitionImage, replicas: tuple[int, ...]
) -> PartitionImage:
    """The partition on these replicas, with no move in progress. Epochs are unchanged so far."""
    moved = partition._replace(
        replicas=replicas,
        adding_replicas=(),
        removing_replicas=(),
        lost_replicas=tuple(r for r in partition.lost_replicas if r in replicas),
    )
    isr = tuple(replica for replica in partition.isr if replica in replicas)
    return with_isr(moved, isr, min_in_sync_replicas(view, topic))


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in others)
