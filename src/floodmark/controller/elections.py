"""Elects partition leaders. PURE.

Picks the first live in-sync replica in assignment order (SPEC R7). If none is live, it picks an
eligible one (KIP-966), which also has every committed record. Other replicas qualify only if
unclean election is allowed, and then records may be lost.
"""

from __future__ import annotations

from typing import NamedTuple

from floodmark.controller.decision import Decision, Refusal, View
from floodmark.controller.eligible_replicas import is_below_minimum, with_isr
from floodmark.controller.partition_states import (
    is_unclean_allowed,
    min_in_sync_replicas,
    store_partitions,
)
from floodmark.metadata.image import MetadataImage, PartitionImage
from floodmark.vocabulary import NO_LEADER, TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.numbers import ElectionType


class ElectionAnswer(NamedTuple):
    topic: str
    partition: int
    error_code: ErrorCode
    message: str | None = None


def elect(
    partition: PartitionImage,
    image: MetadataImage,
    *,
    unclean_allowed: bool,
    min_in_sync_replicas: int = 1,
) -> PartitionImage | None:
    """The partition under its next leader, or None if nobody can lead it."""
    replicas = _candidates(image, partition, partition.replicas)
    for replica in replicas:
        if replica in partition.isr:
            return led_by(partition, replica, partition.isr)
    if is_below_minimum(partition, min_in_sync_replicas):
        for replica in _candidates(image, partition, partition.eligible_leader_replicas):
            alone = with_isr(partition, (replica,), min_in_sync_replicas)
            return led_by(alone, replica, alone.isr)
    if unclean_allowed:
        for replica in replicas:
            # The other logs may conflict with this leader's, so it alone is in sync.
            alone = partition._replace(eligible_leader_replicas=())
            return led_by(alone, replica, (replica,))
    return None


def _candidates(
    image: MetadataImage, partition: PartitionImage, replicas: tuple[int, ...]
) -> list[int]:
    """The usable replicas in order; brokers that are about to stop come last."""
    live = (replica for replica in replicas if image.has_replica(partition, replica))
    return sorted(live, key=lambda replica: not image.is_active(replica))


def led_by(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
    """A new leadership: both epochs rise, even if the same broker leads again."""
    return partition._replace(
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        isr=isr,
    )


def with_next_epochs(partition: PartitionImage) -> PartitionImage:
    """Other replicas under the same leader. The leader epoch rises too, because an Apache Kafka
    broker ignores instructions under a leader epoch it already knows (KAFKA-16121)."""
    return led_by(partition, partition.leader, partition.isr)


def changed_under_leader(image: MetadataImage, partition: PartitionImage) -> PartitionImage:
    """The leader stays.

    Its epoch need not rise for fencing, but Kafka's leaders ignore a change under their current
    epoch.
    """
    leader = image.brokers.get(partition.leader)
    if leader is not None and leader.is_kafka:
        return with_next_epochs(partition)
    return partition._replace(partition_epoch=partition.partition_epoch + 1)


def elect_leaders(
    view: View, election_type: ElectionType, wanted: list[TopicPartition] | None
) -> Decision[list[ElectionAnswer]]:
    """ElectLeaders for these partitions, or (None) for all that need it."""
    image = view.image
    keys = _all_partitions(image) if wanted is None else wanted
    answers: list[ElectionAnswer] = []
    changed: dict[TopicPartition, PartitionImage] = {}
    for key in dict.fromkeys(keys):
        partition = image.partition(*key)
        outcome: PartitionImage | Refusal
        if partition is None:
            is_topic_known = key[0] in image.topics
            what = f"partition as {key[0]}-{key[1]}" if is_topic_known else f"topic as {key[0]}"
            outcome = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")
        elif election_type is ElectionType.PREFERRED:
            outcome = _elect_preferred(image, partition)
        else:
            outcome = _elect_unclean(view, key[0], partition)
        if isinstance(outcome, PartitionImage):
            changed[key] = outcome
            answers.append(ElectionAnswer(*key, ErrorCode.NONE))
        elif wanted is not None or outcome.error_code is not ErrorCode.ELECTION_NOT_NEEDED:
            answers.append(ElectionAnswer(*key, outcome.error_code, outcome.message))
    operations, change = store_partitions(image, changed)
    return Decision(answers, operations, change)


def next_leader(view: View, topic: str, partition: PartitionImage) -> PartitionImage | None:
    """`elect` with the topic's own setting for unclean leaders."""
    return elect(
        partition,
        view.image,
        unclean_allowed=is_unclean_allowed(view, topic),
        min_in_sync_replicas=min_in_sync_replicas(view, topic),
    )


def _all_partitions(image: MetadataImage) -> list[TopicPartition]:
    return [
        (name, index)
        for name, topic in image.topics.items()
        for index in range(len(topic.partitions))
    ]


def _elect_preferred(image: MetadataImage, partition: PartitionImage) -> PartitionImage | Refusal:
    preferred_leader = partition.replicas[0]
    if partition.leader == preferred_leader:
        return Refusal(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    if preferred_leader not in partition.isr or not image.may_lead(partition, preferred_leader):
        return Refusal(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    return led_by(partition, preferred_leader, partition.isr)


def _elect_unclean(view: View, topic: str, partition: PartitionImage) -> PartitionImage | Refusal:
    if partition.leader != NO_LEADER:
        return Refusal(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    elected = elect(
        partition,
        view.image,
        unclean_allowed=True,
        min_in_sync_replicas=min_in_sync_replicas(view, topic),
    )
    if elected is None:
        return Refusal(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    return elected
