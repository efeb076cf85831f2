"""Arguments and results of admin calls: immutable values shared with `configs.py` and the CLI."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from floodmark.client.cluster.view import Broker, TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.wire.numbers import ConfigOperation, ConfigSource, ResourceType


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 uses the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: uuid.UUID
    partitions: int
    replication_factor: int
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    name: str
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic or group by name, or a broker by id. An empty name means all brokers' default."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        return cls(ResourceType.GROUP, name)

    @classmethod
    def broker(cls, node_id: int | None) -> ConfigResource:
        return cls(ResourceType.BROKER, "" if node_id is None else str(node_id))


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceConfig:
    resource: ConfigResource
    entries: Mapping[str, ConfigEntry]
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class ResourceOutcome:
    resource: ConfigResource
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: Sequence[Broker]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    path: str
    replicas: Sequence[ReplicaSize]
    total_bytes: int
    usable_bytes: int
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int
