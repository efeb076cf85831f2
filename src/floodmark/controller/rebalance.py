"""Automatic decisions: returns leadership to preferred replicas, and draws the consequences of
changed settings. PURE.

A leaderless partition gets a leader once its topic's settings allow it. Eligible leader replicas
lose that status when `min.insync.replicas` changes (KIP-966).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from floodmark.controller.decision import Decision, View
from floodmark.controller.elections import changed_under_leader, led_by, next_leader
from floodmark.controller.partition_states import min_in_sync_replicas, store_partitions
from floodmark.controller.reassignment import is_moving
from floodmark.metadata.image import CLUSTER_DEFAULT, MetadataImage, PartitionImage
from floodmark.vocabulary import NO_LEADER, TopicPartition

A = TypeVar("A")

UNCLEAN = "unclean.leader.election.enable"
MINIMUM = "min.insync.replicas"


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


def with_consequences(view: View, decision: Decision[A]) -> Decision[A]:
    """A settings change, with all that follows from it."""
    return with_elections(view, _with_changed_minimum(view, decision))


def with_elections(view: View, decision: Decision[A]) -> Decision[A]:
    """A settings change together with the elections it allows: a leaderless partition gets a leader
    as soon as unclean election is enabled for it."""
    topics = _topics_concerned(view.image, decision, UNCLEAN)
    if not topics:
        return decision
    now = _after(view, decision)
    changed = {
        (name, index): elected
        for name in topics
        for index, partition in enumerate(now.image.topics[name].partitions)
        if partition.leader == NO_LEADER
        and (elected := next_leader(now, name, partition)) is not None
    }
    operations, change = store_partitions(now.image, changed)
    return Decision(
        decision.answer, [*decision.operations, *operations], decision.change.then(change)
    )


def minimum_changed(before: View, view: View) -> Decision[None]:
    """Replicas are eligible because the high watermark stands still while too few are in sync.

    Under a lower minimum, a leader may have committed records that they lack. A higher one later
    must not make them eligible again.
    """
    return _minimum_changed(before, view, view.image.topics)


def _with_changed_minimum(view: View, decision: Decision[A]) -> Decision[A]:
    topics = _topics_concerned(view.image, decision, MINIMUM)
    if not topics:
        return decision
    ended = _minimum_changed(view, _after(view, decision), topics)
    # First: a controller that stops between two multis must not leave the new minimum alone.
    operations = [*ended.operations, *decision.operations]
    return Decision(decision.answer, operations, decision.change.then(ended.change))


def _minimum_changed(before: View, now: View, topics: Iterable[str]) -> Decision[None]:
    changed = {
        (name, index): changed_under_leader(
            now.image, partition._replace(eligible_leader_replicas=())
        )
        for name in topics
        for index, partition in enumerate(now.image.topics[name].partitions)
        if partition.eligible_leader_replicas
        and min_in_sync_replicas(before, name) != min_in_sync_replicas(now, name)
    }
    operations, change = store_partitions(now.image, changed)
    return Decision(None, operations, change)


def _after(view: View, decision: Decision[Any]) -> View:
    image = view.image.apply(decision.change)
    config = view.config.with_dynamic(
        image.config("broker", CLUSTER_DEFAULT), image.config("broker", str(view.config.node_id))
    )
    return replace(view, image=image, config=config)


def _topics_concerned(image: MetadataImage, decision: Decision[Any], setting: str) -> list[str]:
    changed = {
        resource
        for resource, settings in decision.change.configs.items()
        if (settings or {}).get(setting) != image.config(*resource).get(setting)
    }
    if any(resource.kind == "broker" for resource in changed):
        return list(image.topics)
    return [one.name for one in changed if one.kind == "topic" and one.name in image.topics]
