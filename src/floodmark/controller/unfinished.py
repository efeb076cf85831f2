"""Completes unfinished decisions: topics partly created, grown or deleted. PURE.

A topic's node names its partitions before their states exist, and a deletion is announced in
/admin/delete_topics before the first node goes. So the next controller sees what is missing.
Kafka's controller works in the same steps, so its unfinished work is completed too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from floodmark.controller.decision import Decision, View
from floodmark.metadata import paths
from floodmark.metadata.image import ConfigResource, ImageChange, MetadataImage, PartitionImage
from floodmark.metadata.store import Create, Delete, Operation

NEVER_STORED = -1
"""The partition epoch of a partition without a state: the version of a missing node."""


def unfinished_topics(image: MetadataImage) -> list[str]:
    """Topics with partitions that never had a leader and could have one now."""
    return [
        name
        for name, topic in image.topics.items()
        if any(_is_unfinished(image, partition) for partition in topic.partitions)
    ]


def _is_unfinished(image: MetadataImage, partition: PartitionImage) -> bool:
    is_stored = partition.partition_epoch != NEVER_STORED
    return not is_stored and any(map(image.is_live, partition.replicas))


def finish_creation(view: View, topic: str, present: Collection[str]) -> Decision[None]:
    """`present` holds the paths of the topic's nodes."""
    image = view.image
    known = image.topics.get(topic)
    if known is None:
        return Decision(None)
    operations: list[Operation] = []
    if paths.partitions_path(topic) not in present:
        operations.append(Create(paths.partitions_path(topic)))
    finished: dict[int, PartitionImage] = {}
    for index, partition in enumerate(known.partitions):
        if _is_unfinished(image, partition):
            finished[index] = state = _first_state(image, partition)
            if paths.partition_path(topic, index) not in present:
                operations.append(Create(paths.partition_path(topic, index)))
            data = paths.encode_state(state, image.controller_epoch)
            operations.append(Create(paths.state_path(topic, index), data))
    change = ImageChange(topics={topic: known.with_partitions(finished)})
    return Decision(None, operations, change)


def _first_state(image: MetadataImage, partition: PartitionImage) -> PartitionImage:
    """As in Kafka: the first live replica leads, and all live ones are in sync."""
    alive = tuple(replica for replica in partition.replicas if image.is_live(replica))
    return partition._replace(leader=alive[0], leader_epoch=0, partition_epoch=0, isr=alive)


def finish_deletion(view: View, topic: str, present: Iterable[str]) -> Decision[None]:
    """`present` holds the paths of the topic's remaining nodes."""
    resource = ConfigResource("topic", topic)
    has_config = resource in view.image.configs
    operations = [
        *([Delete(paths.config_path(resource))] if has_config else []),
        *_deepest_first(present),
        Delete(paths.deletion_path(topic)),
    ]
    return Decision(
        None,
        operations,
        ImageChange(
            topics={topic: None} if topic in view.image.topics else {},
            configs={resource: None} if has_config else {},
        ),
    )


def _deepest_first(present: Iterable[str]) -> Iterator[Operation]:
    for path in sorted(present, reverse=True):
        yield Delete(path)
