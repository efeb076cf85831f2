"""Turns changed partitions into store operations and an image change. PURE.

Used by all decisions that change leaders or in-sync replicas.
"""

from __future__ import annotations

from collections.abc import Mapping

from floodmark.config import TopicConfig, topic_config
from floodmark.controller.decision import View
from floodmark.metadata import paths
from floodmark.metadata.image import ImageChange, MetadataImage, PartitionImage, TopicImage
from floodmark.metadata.store import Create, Delete, Operation, SetData
from floodmark.vocabulary import TopicPartition


def store_partitions(
    image: MetadataImage, changed: Mapping[TopicPartition, PartitionImage]
) -> tuple[list[Operation], ImageChange]:
    """Each write expects the old partition epoch's version: nobody else has written since."""
    operations: list[Operation] = []
    by_topic: dict[str, dict[int, PartitionImage]] = {}
    for (topic, index), partition in changed.items():
        operations.append(
            SetData(
                paths.state_path(topic, index),
                paths.encode_state(partition, image.controller_epoch),
                partition.partition_epoch - 1,
            )
        )
        before = image.topics[topic].partitions[index]
        operations += _eligible_operations(paths.eligible_path(topic, index), before, partition)
        by_topic.setdefault(topic, {})[index] = partition
    topics: dict[str, TopicImage | None] = {}
    for name, partitions in by_topic.items():
        after = image.topics[name].with_partitions(partitions)
        topics[name] = after
        if any(_is_moved(image.topics[name].partitions[i], p) for i, p in partitions.items()):
            operations.append(SetData(paths.topic_path(name), paths.encode_topic(after)))
    return operations, ImageChange(topics=topics)


def _is_moved(before: PartitionImage, after: PartitionImage) -> bool:
    """Whether the topic's own node must change."""
    return (before.replicas, before.adding_replicas, before.removing_replicas) != (
        after.replicas,
        after.adding_replicas,
        after.removing_replicas,
    )


def _eligible_operations(
    path: str, before: PartitionImage, after: PartitionImage
) -> list[Operation]:
    """The node exists only while a replica is eligible. It names the version of the state."""
    if after.eligible_leader_replicas:
        data = paths.encode_eligible(after)
        return [SetData(path, data) if before.eligible_leader_replicas else Create(path, data)]
    return [Delete(path)] if before.eligible_leader_replicas else []


def is_unclean_allowed(view: View, topic: str) -> bool:
    return _settings(view, topic).get_bool("unclean.leader.election.enable")


def min_in_sync_replicas(view: View, topic: str) -> int:
    return _settings(view, topic).get_int("min.insync.replicas")


def _settings(view: View, topic: str) -> TopicConfig:
    return topic_config(view.config, view.image.config("topic", topic))
