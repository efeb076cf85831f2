"""Taking over a data folder that the store does not know: one of Apache Kafka, or of a lost store.

PURE. The broker tells what it found on disk; this says which topics to write into the new store. A
store that is not new knows better than the disk: what it does not list was deleted, and is a stray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from uuid import UUID

from floodmark.metadata.image import MetadataImage, PartitionImage, TopicImage
from floodmark.vocabulary import NO_PRODUCER_ID

NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """`settings` are those that the topic must have, whatever was set."""

    partitions: Set[int]
    topic_id: UUID | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundNumbers:
    """What has been given out: the last leader epoch of each partition that has one, and the
    largest producer id in the logs."""

    leader_epochs: Mapping[tuple[str, int], int] = field(default_factory=dict)
    producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """What the log folders of a broker say about themselves; to look closer is for a store that is
    new."""

    cluster_id: str | None = None
    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
    look_closer: Callable[[], FoundNumbers] = FoundNumbers


def adopted_topics(
    topics: Mapping[str, FoundTopic],
    leader_epochs: Mapping[tuple[str, int], int],
    node_id: int,
    new_topic_id: Callable[[], UUID],
) -> list[TopicImage]:
    """The topics as this broker alone will lead them.

    A leader epoch goes on above the one in the files, so that nobody takes what comes for what was.
    Partitions that lived on other brokers begin empty.
    """
    adopted = []
    for name, topic in sorted(topics.items()):
        partitions = tuple(
            PartitionImage(
                node_id,
                leader_epochs.get((name, index), NO_EPOCH) + 1,
                0,
                (node_id,),
                (node_id,),
            )
            for index in range(max(topic.partitions) + 1)
        )
        adopted.append(TopicImage(name, topic.topic_id or new_topic_id(), partitions))
    return adopted


def stray_partitions(image: MetadataImage, found: FoundFolder) -> list[tuple[str, int]]:
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
