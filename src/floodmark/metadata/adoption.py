"""Adopts a data folder the store does not know: Apache Kafka's, or that of a lost store.

PURE. The broker reports what it found on disk; this decides which topics to write into the new
store. An existing store takes precedence over the disk: a topic it does not list was deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from uuid import UUID

from floodmark.metadata.image import MetadataImage, PartitionImage, TopicImage
from floodmark.vocabulary import NO_LEADER_EPOCH, NO_PRODUCER_ID, TopicPartition


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """`settings` are the ones the topic must have, whatever was set before."""

    partitions: Set[int]
    topic_id: UUID | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundNumbers:
    """Numbers already in use: the last leader epoch of each partition that has one, and the largest
    producer id in the logs."""

    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """What a broker's log folders say about themselves. Only a new store needs a closer look."""

    cluster_id: str | None = None
    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
    look_closer: Callable[[], FoundNumbers] = FoundNumbers


def adopted_topics(
    topics: Mapping[str, FoundTopic],
    leader_epochs: Mapping[TopicPartition, int],
    node_id: int,
    new_topic_id: Callable[[], UUID],
) -> list[TopicImage]:
    """The topics, led by this broker alone.

    Leader epochs continue above those in the files, so that new records are not mistaken for old
    ones. Partitions that were on other brokers start empty.
    """
    adopted = []
    for name, topic in sorted(topics.items()):
        partitions = tuple(
            PartitionImage(
                node_id,
                leader_epochs.get((name, index), NO_LEADER_EPOCH) + 1,
                0,
                (node_id,),
                (node_id,),
            )
            for index in range(max(topic.partitions) + 1)
        )
        adopted.append(TopicImage(name, topic.topic_id or new_topic_id(), partitions))
    return adopted


def stray_partitions(image: MetadataImage, found: FoundFolder) -> list[TopicPartition]:
    """Folders that the cluster does not know, or knows under another id: left by a deletion that
    the broker did not finish before it stopped.
    """
    strays = []
    for name, topic in sorted(found.topics.items()):
        known = image.topics.get(name)
        is_other = known is not None and topic.topic_id not in (None, known.topic_id)
        count = 0 if known is None or is_other else len(known.partitions)
        strays += [(name, index) for index in sorted(topic.partitions) if index >= count]
    return strays
