"""The immutable snapshot of the cluster that all code reads. The controller replaces it as a whole.

`apply` creates a new image that shares every unchanged topic with the old one. So moving one
partition of a large cluster copies only dictionaries of references.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar
from uuid import UUID

from floodmark.security.acls import AccessRule, Acls
from floodmark.security.delegation_tokens import DelegationToken
from floodmark.security.resources import ResourcePattern

K = TypeVar("K")
V = TypeVar("V")

CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset(
    {CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"}
)
# The name of settings for all brokers; ZooKeeper's path says <default>.
CLUSTER_DEFAULT = ""


class Endpoint(NamedTuple):
    """A broker's address under one listener name."""

    listener: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker. A fenced one is known but neither leads nor is shown to clients.

    `unbroken_since` is the broker epoch since which none of its writes can be missing: it has only
    stopped cleanly, or lost its session while running (KIP-966). -1 means its current epoch.
    `is_shutting_down`: it has asked to hand over leadership; only the controller knows. `is_kafka`
    marks an Apache Kafka broker in a mixed cluster.
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
    """One partition. `partition_epoch` counts changes to this record (the node's version).

    `lost_replicas` are in failed log folders of live brokers. They are not stored: each broker
    knows its own, and the controller asks.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    lost_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic. A partition's position is its number."""

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
    """The owner of settings.

    ("topic", name), ("broker", id), ("broker", "") for all, ("group", id).

    Users, client ids and addresses have quotas, and users also credentials: ("user", node),
    ("client", node), ("ip", node), with node names as in `quota_nodes.py`."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Features:
    """The cluster's finalized feature levels. `epoch` counts the changes."""

    finalized: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class ImageChange:
    """New values by key; None removes the key. The result of a controller's decision."""

    topics: Mapping[str, TopicImage | None] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str] | None] = field(default_factory=dict)
    brokers: Mapping[int, BrokerInfo | None] = field(default_factory=dict)
    features: Features | None = None
    next_producer_id: int | None = None
    acls: Mapping[ResourcePattern, frozenset[AccessRule] | None] = field(default_factory=dict)
    tokens: Mapping[str, DelegationToken | None] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return self == _NO_CHANGE

    def then(self, later: ImageChange) -> ImageChange:
        """Both changes combined; the later one wins."""
        return ImageChange(
            {**self.topics, **later.topics},
            {**self.configs, **later.configs},
            {**self.brokers, **later.brokers},
            self.features if later.features is None else later.features,
            self.next_producer_id if later.next_producer_id is None else later.next_producer_id,
            {**self.acls, **later.acls},
            {**self.tokens, **later.tokens},
        )


_NO_CHANGE = ImageChange()


class PartitionChange(NamedTuple):
    """A partition of a topic that stays: changed, or new if it has no `old`."""

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
    changed_tokens: tuple[str, ...] = ()

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
            or self.changed_tokens
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
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def config(self, kind: str, name: str) -> Mapping[str, str]:
        """The settings of one resource; empty if none are set."""
        return self.configs.get(ConfigResource(kind, name), _NO_CONFIG)

    def live_brokers(self) -> list[BrokerInfo]:
        return [broker for broker in self.brokers.values() if not broker.is_fenced]

    def is_live(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may be given partitions to lead: alive and not shutting down."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and not broker.is_shutting_down

    def has_replica(self, partition: PartitionImage, replica: int) -> bool:
        """Whether this replica can be used: its broker lives, and so does its log folder."""
        return self.is_live(replica) and replica not in partition.lost_replicas

    def may_lead(self, partition: PartitionImage, replica: int) -> bool:
        """Whether this replica may be given the partition to lead."""
        return self.is_active(replica) and replica not in partition.lost_replicas

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
            tokens=_merged(self.tokens, change.tokens),
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
    """What changed.

    With `touched`, compares only the keys it names, so the cost depends on the change and not on
    the size of the cluster.
    """
    names = _keys(old.topics, new.topics, touched.topics if touched else None)
    created, deleted, partitions = _topic_differences(old, new, names)
    resources = _keys(old.configs, new.configs, touched.configs if touched else None)
    brokers = _keys(old.brokers, new.brokers, touched.brokers if touched else None)
    patterns = _keys(old.acls, new.acls, touched.acls if touched else None)
    tokens = _keys(old.tokens, new.tokens, touched.tokens if touched else None)
    return Delta(
        created_topics=tuple(created),
        deleted_topics=tuple(deleted),
        changed_partitions=tuple(partitions),
        changed_configs=tuple(r for r in resources if old.configs.get(r) != new.configs.get(r)),
        changed_brokers=tuple(b for b in brokers if old.brokers.get(b) != new.brokers.get(b)),
        features_changed=old.features != new.features,
        changed_acls=tuple(p for p in patterns if old.acls.get(p) != new.acls.get(p)),
        changed_tokens=tuple(t for t in tokens if old.tokens.get(t) != new.tokens.get(t)),
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
        # A topic that was deleted and recreated under the same name counts as two topics.
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
