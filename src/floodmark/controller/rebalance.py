"""Automatic decisions: returns leadership to preferred replicas, and elects leaders for leaderless
partitions once their topic's settings allow it. PURE.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from floodmark.controller.decision import Decision, View
from floodmark.controller.elections import led_by, next_leader
from floodmark.controller.partition_states import store_partitions
from floodmark.controller.reassignment import is_moving
from floodmark.metadata.image import CLUSTER_DEFAULT, MetadataImage, PartitionImage
from floodmark.vocabulary import NO_LEADER, TopicPartition

A = TypeVar("A")

UNCLEAN = "unclean.leader.election.enable"


def rebalance_leaders(view: View) -> Decision[int]:
    """Moves leadership back to brokers that lead too few of the partitions that prefer them.

    Applies if others lead more than `leader.imbalance.per.broker.percentage` of these. Returns how
    many moved.
    """
    allowed = view.config.get_int("leader.imbalance.per.broker.percentage") / 100
    changed: dict[TopicPartition, PartitionImage] = {}
    for preferred, keys in _by_preferred_leader(view.image).items():
        misplaced = [key for key in keys if _partition(view.image, key).leader != preferred]
        if len(misplaced) / len(keys) > allowed and view.image.is_active(preferred):
            changed |= _given_back(view.image, preferred, misplaced)
    operations, change = store_partitions(view.image, changed)
    return Decision(len(changed), operations, change)


def _by_preferred_leader(image: MetadataImage) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            found[partition.replicas[0]].append((name, index))
    return found


def _given_back(
    image: MetadataImage, preferred: int, keys: Iterable[TopicPartition]
) -> dict[TopicPartition, PartitionImage]:
    """Skips partitions being reassigned: their replica order is not final."""
    return {
        key: led_by(partition, preferred, partition.isr)
        for key in keys
        if preferred in (partition := _partition(image, key)).isr
        and image.may_lead(partition, preferred)
        and not is_moving(partition)
    }


def _partition(image: MetadataImage, key: TopicPartition) -> PartitionImage:
    topic, index = key
    return image.topics[topic].partitions[index]


def with_elections(view: View, decision: Decision[A]) -> Decision[A]:
    """A settings change together with the elections it allows: a leaderless partition gets a leader
    as soon as unclean election is enabled for it."""
    topics = _topics_concerned(view.image, decision)
    if not topics:
        return decision
    image = view.image.apply(decision.change)
    config = view.config.with_dynamic(
        image.config("broker", CLUSTER_DEFAULT), image.config("broker", str(view.config.node_id))
    )
    now = replace(view, image=image, config=config)
    changed = {
        (name, index): elected
        for name in topics
        for index, partition in enumerate(image.topics[name].partitions)
        if partition.leader == NO_LEADER
        and (elected := next_leader(now, name, partition)) is not None
    }
    operations, change = store_partitions(image, changed)
    return Decision(
        decision.answer, [*decision.operations, *operations], decision.change.then(change)
    )


def _topics_concerned(image: MetadataImage, decision: Decision[Any]) -> list[str]:
    changed = {
        resource
        for resource, settings in decision.change.configs.items()
        if (settings or {}).get(UNCLEAN) != image.config(*resource).get(UNCLEAN)
    }
    if any(resource.kind == "broker" for resource in changed):
        return list(image.topics)
    return [one.name for one in changed if one.kind == "topic" and one.name in image.topics]
