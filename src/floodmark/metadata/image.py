"""The picture of the cluster that everybody reads: immutable, replaced whole by the controller.

A change makes a new image through `apply`. It shares every topic that did not change with the old
one, so that moving one partition of a large cluster copies dictionaries of references and nothing
below them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar
from uuid import UUID

from floodmark.security.acls import AccessRule, Acls
from floodmark.security.resources import ResourcePattern

K = TypeVar("K")
V = TypeVar("V")

NO_LEADER = -1
CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset(
    {CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"}
)
# The name under which settings for all brokers are kept; ZooKeeper's path says <default>.
CLUSTER_DEFAULT = ""


class Endpoint(NamedTuple):
    """Where a broker is reached under one listener name."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker. A fenced one is known but neither leads nor is told to clients.

    `unbroken_since` is the broker epoch since which nothing that it wrote can be missing: it has
    only stopped cleanly, or lost its session while it lived (KIP-966). -1 is its present epoch.
    `is_shutting_down`: it has asked to hand its leaderships over; only the controller knows.
    `is_kafka` is for one of Apache Kafka's in a cluster of both.
    """

    id: int
    broker_epoch: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None
    is_fenced: bool = False
    supported_features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unbroken_since: int = -1
    is_shutting_down: bool = False
    is_kafka: bool = False


class PartitionImage(NamedTuple):
    """One partition. `partition_epoch` counts the changes of this record (the node's version)."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; its partitions are numbered by their place."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def with_partitions(self, changed: Mapping[int, PartitionImage]) -> TopicImage:
        partitions = tuple(changed.get(index, old) for index, old in enumerate(self.partitions))
        return replace(self, partitions=partitions)


class ConfigResource(NamedTuple):
    """Whose settings: ("topic", name), ("broker", id) or ("broker", "") for all, ("group", id).

    Users, client ids and addresses have quotas, and users credentials: ("user", node),
    ("client", node), ("ip", node), named as their nodes (`quota_nodes.py`)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Features:
    """Feature levels agreed on by the cluster; `epoch` counts the changes."""

    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ImageChange:
    """New values by key; None takes the key away. What a decision of the controller comes to."""

    topics: Mapping[str, TopicImage | None] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str] | None] = field(default_factory=dict)
    brokers: Mapping[int, BrokerInfo | None] = field(default_factory=dict)
    features: Features | None = None
    next_producer_id: int | None = None
    acls: Mapping[ResourcePattern, frozenset[AccessRule] | None] = field(default_factory=dict)

    def then(self, later: ImageChange) -> ImageChange:
        """Both changes as one, the later one over the earlier."""
        return ImageChange(
            {**self.topics, **later.topics},
            {**self.configs, **later.configs},
            {**self.brokers, **later.brokers},
            self.features if later.features is None else later.features,
            self.next_producer_id if later.next_producer_id is None else later.next_producer_id,
            {**self.acls, **later.acls},
        )


class PartitionChange(NamedTuple):
    """A partition of a topic that stays: changed, or (with no `old`) new."""

    topic: TopicImage
    partition: int
    old: PartitionImage | None
    new: PartitionImage


@dataclass(frozen=True, slots=True)
class Delta:
    """What a broker must do to get from one image to the next."""

    created_topics: tuple[TopicImage, ...] = ()
    deleted_topics: tuple[TopicImage, ...] = ()
    changed_partitions: tuple[PartitionChange, ...] = ()
    changed_configs: tuple[ConfigResource, ...] = ()
    changed_brokers: tuple[int, ...] = ()
    features_changed: bool = False
    changed_acls: tuple[ResourcePattern, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (
            self.created_topics
            or self.deleted_topics
            or self.changed_partitions
            or self.changed_configs
            or self.changed_brokers
            or self.features_changed
            or self.changed_acls
        )


_NO_CONFIG: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MetadataImage:
    cluster_id: str = ""
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    next_producer_id: int = 0
    acls: Acls = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def config(self, kind: str, name: str) -> Mapping[str, str]:
        """The texts set for one resource; empty when nothing is."""
        return self.configs.get(ConfigResource(kind, name), _NO_CONFIG)

    def live_brokers(self) -> list[BrokerInfo]:
        return [broker for broker in self.brokers.values() if not broker.is_fenced]

    def is_live(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may be given something to lead: alive, and about to stay."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and not broker.is_shutting_down

    # -- making the next image ----------------------------------------------------------------

    def apply(self, change: ImageChange) -> MetadataImage:
        topics, by_id = self._changed_topics(change.topics)
        return replace(
            self,
            topics=topics,
            topics_by_id=by_id,
            configs=_merged(self.configs, change.configs),
            brokers=_merged(self.brokers, change.brokers),
            features=self.features if change.features is None else change.features,
            next_producer_id=(
                self.next_producer_id
                if change.next_producer_id is None
                else change.next_producer_id
            ),
            acls=_merged(self.acls, change.acls),
        )

    def _changed_topics(
        self, changes: Mapping[str, TopicImage | None]
    ) -> tuple[Mapping[str, TopicImage], Mapping[UUID, TopicImage]]:
        if not changes:
            return self.topics, self.topics_by_id
        topics, by_id = dict(self.topics), dict(self.topics_by_id)
        for name, topic in changes.items():
            old = topics.pop(name, None) if topic is None else topics.get(name)
            if old is not None and (topic is None or topic.topic_id != old.topic_id):
                by_id.pop(old.topic_id, None)
            if topic is not None:
                topics[name] = topic
                by_id[topic.topic_id] = topic
        return topics, by_id


def difference(old: MetadataImage, new: MetadataImage, touched: ImageChange | None = None) -> Delta:
    """What changed. With `touched`, only the keys named there are looked at, which makes the cost
    that of the change and not that of the cluster.
    """
    names = _keys(old.topics, new.topics, touched.topics if touched else None)
    created, deleted, partitions = _topic_differences(old, new, names)
    resources = _keys(old.configs, new.configs, touched.configs if touched else None)
    brokers = _keys(old.brokers, new.brokers, touched.brokers if touched else None)
    patterns = _keys(old.acls, new.acls, touched.acls if touched else None)
    return Delta(
        created_topics=tuple(created),
        deleted_topics=tuple(deleted),
        changed_partitions=tuple(partitions),
        changed_configs=tuple(r for r in resources if old.configs.get(r) != new.configs.get(r)),
        changed_brokers=tuple(b for b in brokers if old.brokers.get(b) != new.brokers.get(b)),
        features_changed=old.features != new.features,
        changed_acls=tuple(p for p in patterns if old.acls.get(p) != new.acls.get(p)),
    )


def _topic_differences(
    old: MetadataImage, new: MetadataImage, names: Mapping[str, object]
) -> tuple[list[TopicImage], list[TopicImage], list[PartitionChange]]:
    created: list[TopicImage] = []
    deleted: list[TopicImage] = []
    partitions: list[PartitionChange] = []
    for name in names:
        before, after = old.topics.get(name), new.topics.get(name)
        if before is after:
            continue
        # A topic deleted and created again under the same name is two topics.
        if before is not None and (after is None or after.topic_id != before.topic_id):
            deleted.append(before)
            before = None
        if after is not None and before is None:
            created.append(after)
        elif after is not None and before is not None:
            partitions += _partition_differences(before, after)
    return created, deleted, partitions


def _partition_differences(before: TopicImage, after: TopicImage) -> list[PartitionChange]:
    known = len(before.partitions)
    changes = []
    for index, partition in enumerate(after.partitions):
        previous = before.partitions[index] if index < known else None
        if previous is not partition and previous != partition:
            changes.append(PartitionChange(after, index, previous, partition))
    return changes


def _merged(current: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    if not changes:
        return current
    merged = dict(current)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _keys(
    old: Mapping[K, V], new: Mapping[K, V], touched: Mapping[K, V | None] | None
) -> Mapping[K, object]:
    """The keys to compare, in a stable order."""
    if touched is not None:
        return touched
    return {} if old is new else {**old, **new}
