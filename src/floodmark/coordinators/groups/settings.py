"""The group coordinator's settings, read once from the broker's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from floodmark.coordinators.groups.subscriptions import NOTHING_MATCHED, matching_topics
from floodmark.metadata.image import MetadataImage

if TYPE_CHECKING:
    from floodmark.config.broker_config import BrokerConfig

CLASSIC_NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member cannot send heartbeats while it waits to join, so this bounds its wait.

Kafka has the same constant: without it, retrying clients would leave dead members behind.
"""

MAX_TOMBSTONES_PER_WRITE = 1000
"""How many expired offsets to remove at once, group by group. Bounds how long a run takes."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    protocols: tuple[str, ...] = ("classic", "consumer")
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_assignment_interval_ms: int = 1_000
    consumer_regex_refresh_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        number = config.get_int
        return cls(
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            max_size=number("group.max.size"),
            protocols=config.get_list("group.coordinator.rebalance.protocols"),
            consumer_session_timeout_ms=number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
            consumer_max_size=number("group.consumer.max.size"),
            consumer_assignors=config.get_list("group.consumer.assignors"),
            consumer_migration_policy=config.get_str("group.consumer.migration.policy").lower(),
            consumer_assignment_interval_ms=number("group.consumer.assignment.interval.ms"),
            consumer_regex_refresh_interval_ms=number("group.consumer.regex.refresh.interval.ms"),
        )

    @property
    def can_upgrade(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self.consumer_migration_policy in ("upgrade", "bidirectional")

    @property
    def can_downgrade(self) -> bool:
        return self.consumer_migration_policy in ("downgrade", "bidirectional")


class Surroundings:
    """What all shards of a coordinator share: settings, the cluster's topics, new ids.

    The service replaces the fields; shards keep a reference to the object.
    """

    __slots__ = ("image", "matched", "new_uuid", "settings", "topics_version")

    def __init__(
        self,
        settings: GroupSettings,
        new_uuid: Callable[[], str],
        image: MetadataImage | None = None,
    ) -> None:
        self.settings = settings
        self.new_uuid = new_uuid
        self.image = MetadataImage() if image is None else image
        self.topics_version = 0
        """Counts topic changes: anything compared with an older version is stale."""
        self.matched = NOTHING_MATCHED
        """What the service has matched in a thread for the request that it is about to run."""

    def topics_matching(self, pattern: str) -> frozenset[str]:
        """Raises INVALID_REGULAR_EXPRESSION."""
        if self.matched.topics_version == self.topics_version:
            found = self.matched.topics.get(pattern)
            if found is not None:
                return found
        return matching_topics(pattern, self.image.topics)
