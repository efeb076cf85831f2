"""Taking over a data folder that the store does not know: one of Apache Kafka, or of a lost store.

PURE. The broker tells what it found on disk; this says which topics to write into the new store. A
store that is not new knows better than the disk: what it does not list was deleted, and is a stray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from floodmark.metadata.image import MetadataImage, PartitionImage, TopicImage

NO_EPOCH = -1
NO_PRODUCER_ID = -1


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """`partitions` maps each partition found to its last leader epoch (-1 for none); `settings` are
    those that the topic must have, whatever was set."""

    partitions: Mapping[int, int]
    topic_id: UUID | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """What the log folders of a broker say about themselves."""

    cluster_id: str | None = None
    node_id: int | None = None
    topics: Mapping[str, FoundTopic] = field(default_factory=dict)
    # Asked only where a store is new: the largest producer id in the logs, -1 for none.
    last_producer_id: Callable[[], int] = field(default=lambda: NO_PRODUCER_ID)


def adopted_topics(
    found: FoundFolder, node_id: int, new_topic_id: Callable[[], UUID]
) -> list[TopicImage]:
    """The topics as this broker alone will lead them.

    A leader epoch goes on above the one in the files, so that nobody takes what comes for what was.
    Partitions that lived on other brokers begin empty.
    """
    topics = []
    for name, topic in sorted(found.topics.items()):
        count = max(topic.partitions) + 1 if topic.partitions else 0
        if count == 0:
            continue
        partitions = tuple(
            PartitionImage(
                node_id, topic.partitions.get(index, NO_EPOCH) + 1, 0, (node_id,), (node_id,)
            )
            for index in range(count)
        )
        topics.append(TopicImage(name, topic.topic_id or new_topic_id(), partitions))
    return topics


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
