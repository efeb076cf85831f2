"""The cluster that a seed produces: brokers, topics and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

from floodmark.storage.log_config import UNLIMITED, LogConfig
from floodmark.vocabulary import TopicPartition

# Of a partition in a larger cluster, so that it can move.
_MOST_REPLICAS: Final = 3
_LAGS_MAX_MS: Final = (60.0, 150.0, 400.0)
# Small, so that a hundred batches are enough to roll segments and use indexes.
_SEGMENT_BYTES: Final = 1200
_INDEX_INTERVAL_BYTES: Final = 200
_RETENTION_BYTES: Final = 2500


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic. Without `is_clean`, unclean elections are allowed and records may be lost."""

    name: str
    topic_id: UUID
    replicas: tuple[tuple[int, ...], ...]
    min_in_sync_replicas: int
    is_clean: bool
    flush_messages: int | None
    retention_bytes: int

    @property
    def keys(self) -> list[TopicPartition]:
        return [(self.name, index) for index in range(len(self.replicas))]

    @property
    def is_synced(self) -> bool:
        """Whether every batch is synced before it counts, so a power loss loses nothing."""
        return self.flush_messages == 1

    @property
    def settings(self) -> dict[str, str]:
        return {
            "min.insync.replicas": str(self.min_in_sync_replicas),
            "unclean.leader.election.enable": "false" if self.is_clean else "true",
        }

    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=_SEGMENT_BYTES,
            index_interval_bytes=_INDEX_INTERVAL_BYTES,
            retention_bytes=self.retention_bytes,
            flush_messages=self.flush_messages or UNLIMITED,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    broker_ids: tuple[int, ...]
    lag_max_ms: float
    topics: tuple[TopicPlan, ...]

    @property
    def keys(self) -> list[TopicPartition]:
        return [key for topic in self.topics for key in topic.keys]

    def topic(self, name: str) -> TopicPlan:
        return next(topic for topic in self.topics if topic.name == name)

    def replicas(self, key: TopicPartition) -> tuple[int, ...]:
        return self.topic(key[0]).replicas[key[1]]


def make_plan(random: Random, brokers: int | None, fixed: Mapping[str, object]) -> Plan:
    """Draws a random plan. `fixed` overrides values of `TopicPlan`."""
    count = brokers or random.choice((1, 2, 3, 3, 3))
    broker_ids = tuple(range(1, count + 1))
    lag_max_ms = random.choice(_LAGS_MAX_MS)
    # Either all topics are synced or none: a power loss hits all of them at once.
    flush_messages = random.choice((None, None, None, 1))
    topics = tuple(
        _make_topic(random, number, broker_ids, flush_messages, fixed)
        for number in range(random.choice((1, 1, 2)))
    )
    return Plan(broker_ids, lag_max_ms, topics)


def _make_topic(
    random: Random,
    number: int,
    broker_ids: tuple[int, ...],
    flush_messages: int | None,
    fixed: Mapping[str, object],
) -> TopicPlan:
    factor = len(broker_ids) if random.random() < 0.8 else max(1, len(broker_ids) - 1)
    if len(broker_ids) > _MOST_REPLICAS:
        factor = random.randint(1, _MOST_REPLICAS)
    replicas = tuple(
        tuple(random.sample(broker_ids, factor)) for _ in range(random.choice((1, 1, 2)))
    )
    chosen: dict[str, object] = {
        "min_in_sync_replicas": random.randint(1, 2),
        "is_clean": random.random() < 0.8,
        "flush_messages": flush_messages,
        "retention_bytes": random.choice((-1, -1, _RETENTION_BYTES)),
    }
    return TopicPlan(
        f"floods{number}",
        UUID(int=0xF100D0 + number),
        replicas,
        **(chosen | dict(fixed)),  # type: ignore[arg-type]
    )
