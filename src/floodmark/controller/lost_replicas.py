"""Decisions: replicas in failed log folders of live brokers. PURE.

A broker responds to a LeaderAndIsr with KAFKA_STORAGE_ERROR for them. They leave the in-sync
replicas and lead nothing, until their broker responds otherwise or registers again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from floodmark.controller.decision import Decision, View, then
from floodmark.controller.elections import changed_under_leader, led_by, next_leader
from floodmark.controller.eligible_replicas import without
from floodmark.controller.partition_states import min_in_sync_replicas, store_partitions
from floodmark.metadata.image import ImageChange, MetadataImage, PartitionImage, TopicImage
from floodmark.vocabulary import NO_LEADER, TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """What a broker, under this broker epoch, has reported about its replicas."""

    broker_id: int
    broker_epoch: int
    lost: frozenset[TopicPartition]
    sound: frozenset[TopicPartition]


def report_in(
    image: MetadataImage,
    broker_id: int,
    request: LeaderAndIsrRequest,
    response: LeaderAndIsrResponse,
) -> ReplicaReport | None:
    """The differences between a response and the image. None if there are none."""
    names = {state.topic_id: state.topic_name for state in request.topic_states}
    lost: set[TopicPartition] = set()
    sound: set[TopicPartition] = set()
    for topic in response.topics:
        for one in topic.partition_errors:
            key = (names.get(topic.topic_id, ""), one.partition_index)
            partition = image.partition(*key)
            is_known_as_lost = partition is not None and broker_id in partition.lost_replicas
            if one.error_code == ErrorCode.KAFKA_STORAGE_ERROR and not is_known_as_lost:
                lost.add(key)
            elif one.error_code == ErrorCode.NONE and is_known_as_lost:
                sound.add(key)
    if not lost and not sound:
        return None
    return ReplicaReport(broker_id, request.broker_epoch, frozenset(lost), frozenset(sound))


def own_report(
    image: MetadataImage, broker_id: int, lost: frozenset[TopicPartition]
) -> ReplicaReport:
    """The report of the controller's own broker, which needs no request."""
    sound = frozenset(_known_as_lost(image, broker_id)) - lost
    broker = image.brokers.get(broker_id)
    return ReplicaReport(broker_id, -1 if broker is None else broker.broker_epoch, lost, sound)


def replicas_reported(view: View, report: ReplicaReport) -> Decision[None]:
    """Removes lost replicas. Leaderless partitions may get a recovered one as leader."""
    broker = view.image.brokers.get(report.broker_id)
    if broker is None or broker.broker_epoch != report.broker_epoch:
        return Decision(None)
    view, decision = then(view, Decision(None), _lost(view, report))
    _, decision = then(view, decision, _sound(view, report))
    return decision


def forgotten(image: MetadataImage, broker_id: int) -> dict[str, TopicImage | None]:
    """The topics as if this broker had lost nothing, because it is about to be asked."""
    return _topics(image, _without_loss(image, broker_id, _known_as_lost(image, broker_id)))


def carried_over(before: MetadataImage, image: MetadataImage) -> MetadataImage:
    """Adds lost replicas to an image from the store, which does not contain them."""
    lost = {
        (name, index): partition._replace(lost_replicas=known.lost_replicas)
        for name, topic in image.topics.items()
        for index, partition in enumerate(topic.partitions)
        if (known := before.partition(name, index)) is not None and known.lost_replicas
    }
    return image.apply(ImageChange(topics=_topics(image, lost)))


def _lost(view: View, report: ReplicaReport) -> Decision[None]:
    lost: dict[TopicPartition, PartitionImage] = {}
    changed: dict[TopicPartition, PartitionImage] = {}
    for key in sorted(report.lost):
        partition = view.image.partition(*key)
        if partition is None or not _is_news(partition, report.broker_id):
            continue
        known = (*partition.lost_replicas, report.broker_id)
        lost[key] = partition._replace(lost_replicas=known)
        if report.broker_id in (partition.leader, *partition.isr):
            after = _taken_out(view, key[0], lost[key], report.broker_id)
            if after != lost[key]:
                changed[key] = after
    image = view.image.apply(ImageChange(topics=_topics(view.image, lost)))
    operations, change = store_partitions(image, changed)
    return Decision(
        None, operations, ImageChange(topics={**_topics(view.image, lost), **change.topics})
    )


def _sound(view: View, report: ReplicaReport) -> Decision[None]:
    found = _without_loss(view.image, report.broker_id, report.sound)
    image = view.image.apply(ImageChange(topics=_topics(view.image, found)))
    now = replace(view, image=image)
    led = {
        key: elected
        for key, partition in found.items()
        if partition.leader == NO_LEADER
        and (elected := next_leader(now, key[0], partition)) is not None
    }
    operations, change = store_partitions(image, led)
    return Decision(
        None, operations, ImageChange(topics={**_topics(view.image, found), **change.topics})
    )


def _is_news(partition: PartitionImage, broker_id: int) -> bool:
    return broker_id in partition.replicas and broker_id not in partition.lost_replicas


def _taken_out(view: View, topic: str, partition: PartitionImage, broker_id: int) -> PartitionImage:
    """Nor is it eligible to lead (KIP-966), because a failed disk may have lost records."""
    minimum = min_in_sync_replicas(view, topic)
    smaller = without(partition, broker_id, minimum, keeps_all=False)
    if partition.leader == broker_id:
        elected = next_leader(view, topic, smaller)
        return elected if elected is not None else led_by(smaller, NO_LEADER, smaller.isr)
    return partition if smaller == partition else changed_under_leader(view.image, smaller)


def _known_as_lost(image: MetadataImage, broker_id: int) -> list[TopicPartition]:
    return [
        (name, index)
        for name, topic in image.topics.items()
        for index, partition in enumerate(topic.partitions)
        if broker_id in partition.lost_replicas
    ]


def _without_loss(
    image: MetadataImage, broker_id: int, keys: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionImage]:
    found: dict[TopicPartition, PartitionImage] = {}
    for key in sorted(keys):
        partition = image.partition(*key)
        if partition is not None and broker_id in partition.lost_replicas:
            still_lost = tuple(r for r in partition.lost_replicas if r != broker_id)
            found[key] = partition._replace(lost_replicas=still_lost)
    return found


def _topics(
    image: MetadataImage, changed: Mapping[TopicPartition, PartitionImage]
) -> dict[str, TopicImage | None]:
    by_topic: dict[str, dict[int, PartitionImage]] = {}
    for (topic, index), partition in changed.items():
        by_topic.setdefault(topic, {})[index] = partition
    return {name: image.topics[name].with_partitions(some) for name, some in by_topic.items()}
