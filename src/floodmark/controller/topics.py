"""Decisions: create and delete topics. PURE. Refusals use Kafka 4.3's wording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from uuid import UUID

from floodmark.config import ConfigError, validate_topic_overrides
from floodmark.controller.assignment import ManualAssignment, place_automatically, place_manually
from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.topic_names import (
    RESERVED_TOPIC,
    can_collide,
    metric_name,
    why_invalid,
)
from floodmark.metadata import paths
from floodmark.metadata.image import (
    ConfigResource,
    ImageChange,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.paths import NO_TOPIC_ID
from floodmark.metadata.store import Create, Delete, Operation, SetData
from floodmark.wire.errors import ErrorCode

USE_DEFAULT = -1
MAX_PARTITIONS_PER_REQUEST = 10_000
"""As in Kafka: one request must not ask for more than a broker can hold."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """`assignments` are (partition, broker ids) pairs in the order of the request."""

    name: str
    num_partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[ManualAssignment] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The result for one topic. `topic_id` and the numbers are valid only without an error."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = NO_TOPIC_ID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    name: str | None
    topic_id: UUID
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic by name or by id: exactly one of them."""

    name: str | None = None
    topic_id: UUID = NO_TOPIC_ID


def _partitions_asked_for(view: View, request: NewTopic) -> int:
    if request.assignments:
        return len(request.assignments)
    if request.num_partitions == USE_DEFAULT:
        return view.config.get_int("num.partitions")
    return max(0, request.num_partitions)


# -- create ---------------------------------------------------------------------------------------


def create_topics(
    view: View, requests: Sequence[NewTopic], *, validate_only: bool = False
) -> Decision[list[CreatedTopic]]:
    """One result per distinct name, in the order of the request."""
    if (
        sum(_partitions_asked_for(view, request) for request in requests)
        > MAX_PARTITIONS_PER_REQUEST
    ):
        too_many = "Excessively large number of partitions per request."
        return Decision(
            [CreatedTopic(r.name, ErrorCode.POLICY_VIOLATION, too_many) for r in requests]
        )
    repeated = {name for name, n in Counter(r.name for r in requests).items() if n > 1}
    # As in Kafka, this request's own topics do not count: it can create both `a.b` and `a_b`.
    taken_metrics = _metric_names(view.image)
    answers: dict[str, CreatedTopic] = {}
    operations: list[Operation] = []
    topics: dict[str, TopicImage | None] = {}
    configs: dict[ConfigResource, Mapping[str, str] | None] = {}
    for request in requests:
        if request.name in repeated:
            answers[request.name] = CreatedTopic(
                request.name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."
            )
            continue
        outcome = _decide_topic(view, request, taken_metrics)
        if isinstance(outcome, Refusal):
            answers[request.name] = CreatedTopic(request.name, *outcome)
            continue
        overrides = _overrides(request)
        answers[request.name] = CreatedTopic(
            request.name,
            topic_id=outcome.topic_id,
            num_partitions=len(outcome.partitions),
            replication_factor=len(outcome.partitions[0].replicas),
            configs=overrides,
        )
        if not validate_only:
            topics[outcome.name] = outcome
            configs[ConfigResource("topic", outcome.name)] = overrides
            operations += topic_operations(view.image, outcome, overrides)
    return Decision(list(answers.values()), operations, ImageChange(topics, configs))


def topic_operations(
    image: MetadataImage, topic: TopicImage, overrides: Mapping[str, str]
) -> list[Operation]:
    """The nodes of a new topic, parents first."""
    operations: list[Operation] = [
        config_operation(image, ConfigResource("topic", topic.name), overrides),
        Create(paths.topic_path(topic.name), paths.encode_topic(topic)),
        Create(paths.partitions_path(topic.name)),
    ]
    for index, partition in enumerate(topic.partitions):
        operations += partition_operations(topic.name, index, partition, image.controller_epoch)
    return operations


def partition_operations(
    topic: str, index: int, partition: PartitionImage, controller_epoch: int
) -> tuple[Create, Create]:
    return (
        Create(paths.partition_path(topic, index)),
        Create(paths.state_path(topic, index), paths.encode_state(partition, controller_epoch)),
    )


def config_operation(
    image: MetadataImage, resource: ConfigResource, config: Mapping[str, str]
) -> Operation:
    """A resource's settings. The node may already exist, even before its topic."""
    path, data = paths.config_path(resource), paths.encode_config(config)
    return SetData(path, data) if resource in image.configs else Create(path, data)


def _decide_topic(
    view: View, request: NewTopic, taken_metrics: Mapping[str, str]
) -> TopicImage | Refusal:
    refusal = _check_name(view, request.name, taken_metrics) or _check_configs(view, request)
    if refusal is not None:
        return refusal
    partitions = _partitions(view, request)
    if isinstance(partitions, Refusal):
        return partitions
    return TopicImage(request.name, view.new_topic_id(), partitions)


def _check_name(view: View, name: str, taken_metrics: Mapping[str, str]) -> Refusal | None:
    if name in view.image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name == RESERVED_TOPIC:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    reason = why_invalid(name)
    if reason is None and can_collide(name):
        colliding = taken_metrics.get(metric_name(name))
        if colliding is not None:
            reason = f"Topic '{name}' collides with existing topic: {colliding}"
    return None if reason is None else Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def _check_configs(view: View, request: NewTopic) -> Refusal | None:
    missing = [name for name, value in request.configs.items() if value is None]
    if missing:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(missing)}",
        )
    try:
        validate_topic_overrides(_overrides(request), view.config.topic_defaults)
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _overrides(request: NewTopic) -> dict[str, str]:
    return {name: value for name, value in request.configs.items() if value is not None}


def _partitions(view: View, request: NewTopic) -> tuple[PartitionImage, ...] | Refusal:
    if request.assignments:
        if request.replication_factor != USE_DEFAULT:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set "
                "to -1.",
            )
        if request.num_partitions != USE_DEFAULT:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        return place_manually(view.image, request.assignments)
    if request.replication_factor < USE_DEFAULT or request.replication_factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if request.num_partitions < USE_DEFAULT or request.num_partitions == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    return place_automatically(
        view,
        _or_default(view, request.num_partitions, "num.partitions"),
        _or_default(view, request.replication_factor, "default.replication.factor"),
    )


def _or_default(view: View, number: int, setting: str) -> int:
    return view.config.get_int(setting) if number == USE_DEFAULT else number


def _metric_names(image: MetadataImage) -> dict[str, str]:
    return {metric_name(name): name for name in image.topics if can_collide(name)}


# -- delete ---------------------------------------------------------------------------------------


def delete_topics(view: View, refs: Sequence[TopicRef]) -> Decision[list[DeletedTopic]]:
    """By name or id. The nodes go immediately; brokers then remove the files.

    A topic given both by name and by id stays, and both results say so.
    """
    repeated = {ref for ref, n in Counter(refs).items() if n > 1}
    given_twice = _given_by_name_and_id(view, refs, repeated)
    answers: list[DeletedTopic] = []
    operations: list[Operation] = []
    topics: dict[str, TopicImage | None] = {}
    configs: dict[ConfigResource, Mapping[str, str] | None] = {}
    for ref in dict.fromkeys(refs):
        outcome = _find(view, ref, is_repeated=ref in repeated)
        if isinstance(outcome, TopicImage) and outcome.topic_id in given_twice:
            if ref.name is not None:
                text = "The provided topic name maps to an ID that was already supplied."
                answers.append(
                    DeletedTopic(ref.name, outcome.topic_id, ErrorCode.INVALID_REQUEST, text)
                )
            continue
        if isinstance(outcome, Refusal):
            answers.append(DeletedTopic(ref.name, ref.topic_id, *outcome))
            continue
        answers.append(DeletedTopic(outcome.name, outcome.topic_id))
        topics[outcome.name] = None
        resource = ConfigResource("topic", outcome.name)
        deletion = _deletion(outcome)
        if resource in view.image.configs:
            configs[resource] = None
            deletion.insert(1, Delete(paths.config_path(resource)))
        operations += deletion
    return Decision(answers, operations, ImageChange(topics, configs))


def _given_by_name_and_id(
    view: View, refs: Sequence[TopicRef], repeated: Set[TopicRef]
) -> set[UUID]:
    ids = {ref.topic_id for ref in refs if ref.name is None}
    names = {ref.name for ref in refs if ref.topic_id == NO_TOPIC_ID and ref not in repeated}
    topics = (view.image.topics.get(name) for name in names if name is not None)
    return ids & {topic.topic_id for topic in topics if topic is not None}


def _find(view: View, ref: TopicRef, *, is_repeated: bool) -> TopicImage | Refusal:
    has_id = ref.topic_id != NO_TOPIC_ID
    if has_id == (ref.name is not None):
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "You may not specify both topic name and topic id."
            if has_id
            else "Neither topic name nor id were specified.",
        )
    if is_repeated:
        what = "id" if has_id else "name"
        return Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
    if not view.config.get_bool("delete.topic.enable"):
        return Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if ref.name is not None:
        return view.image.topics.get(ref.name) or Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return view.image.topics_by_id.get(ref.topic_id) or Refusal(
        ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
    )


def _deletion(topic: TopicImage) -> list[Operation]:
    """Children first, because a node with children cannot be deleted."""
    # Announced like Kafka does: if it is too large for one multi, the next controller finishes it.
    operations: list[Operation] = [Create(paths.deletion_path(topic.name))]
    if any(p.adding_replicas or p.removing_replicas for p in topic.partitions):
        # A Kafka controller that has to finish this would also wait for the moves.
        settled = topic.with_partitions(
            {
                index: partition._replace(adding_replicas=(), removing_replicas=())
                for index, partition in enumerate(topic.partitions)
            }
        )
        operations.append(SetData(paths.topic_path(topic.name), paths.encode_topic(settled)))
    for index, partition in enumerate(topic.partitions):
        if partition.eligible_leader_replicas:
            operations.append(Delete(paths.eligible_path(topic.name, index)))
        operations.append(Delete(paths.state_path(topic.name, index)))
        operations.append(Delete(paths.partition_path(topic.name, index)))
    operations.append(Delete(paths.partitions_path(topic.name)))
    operations.append(Delete(paths.topic_path(topic.name)))
    operations.append(Delete(paths.deletion_path(topic.name)))
    return operations
