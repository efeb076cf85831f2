"""Decision: increase a topic's partitions (never fewer). PURE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from floodmark.controller.assignment import place_automatically, place_one_manually
from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.reassignment import target_of
from floodmark.controller.topics import MAX_PARTITIONS_PER_REQUEST, partition_operations
from floodmark.metadata import paths
from floodmark.metadata.image import ImageChange, PartitionImage, TopicImage
from floodmark.metadata.store import Operation, SetData
from floodmark.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """`count` is the wanted total, `assignments` the brokers of each added partition, or None."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class GrownTopic:
    name: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def create_partitions(
    view: View, requests: Sequence[MorePartitions], *, validate_only: bool = False
) -> Decision[list[GrownTopic]]:
    """Each topic has its own result: one that cannot grow does not stop the others."""
    names = Counter(request.name for request in requests)
    if sum(_added(view, request) for request in requests) > MAX_PARTITIONS_PER_REQUEST:
        too_many = "Excessively large number of partitions per request."
        return Decision([GrownTopic(name, ErrorCode.POLICY_VIOLATION, too_many) for name in names])
    answers: dict[str, GrownTopic] = {}
    operations: list[Operation] = []
    topics: dict[str, TopicImage | None] = {}
    for request in requests:
        outcome: TopicImage | Refusal
        if names[request.name] > 1:
            outcome = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            outcome = _grow(view, request)
        if isinstance(outcome, Refusal):
            answers[request.name] = GrownTopic(request.name, *outcome)
            continue
        answers[request.name] = GrownTopic(request.name)
        if not validate_only:
            topics[outcome.name] = outcome
            operations += _growth(view, outcome)
    return Decision(list(answers.values()), operations, ImageChange(topics=topics))


def _added(view: View, request: MorePartitions) -> int:
    topic = view.image.topics.get(request.name)
    return 0 if topic is None else max(0, request.count - len(topic.partitions))


def _grow(view: View, request: MorePartitions) -> TopicImage | Refusal:
    topic = view.image.topics.get(request.name)
    if topic is None:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    existing = len(topic.partitions)
    if request.count == existing:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if request.count < existing:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {existing} partition(s); {request.count} would "
            "not be an increase.",
        )
    added = _place(view, topic, request)
    if isinstance(added, Refusal):
        return added
    return replace(topic, partitions=(*topic.partitions, *added))


def _place(
    view: View, topic: TopicImage, request: MorePartitions
) -> tuple[PartitionImage, ...] | Refusal:
    existing = len(topic.partitions)
    additional = request.count - existing
    replication_factor = len(target_of(topic.partitions[0]))
    if request.assignments is None:
        return place_automatically(view, additional, replication_factor, first_partition=existing)
    if len(request.assignments) != additional:
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(request.assignments)} assignment(s) were specified.",
        )
    added: list[PartitionImage] = []
    for offset, replicas in enumerate(request.assignments):
        placed = place_one_manually(view.image, existing + offset, replicas, replication_factor)
        if isinstance(placed, Refusal):
            return placed
        added.append(placed)
    return tuple(added)


def _growth(view: View, grown: TopicImage) -> list[Operation]:
    existing = len(view.image.topics[grown.name].partitions)
    operations: list[Operation] = [SetData(paths.topic_path(grown.name), paths.encode_topic(grown))]
    for index in range(existing, len(grown.partitions)):
        operations += partition_operations(
            grown.name, index, grown.partitions[index], view.image.controller_epoch
        )
    return operations
