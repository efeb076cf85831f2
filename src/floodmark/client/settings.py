"""Client settings: Kafka's names with underscores for dots, and Kafka's defaults where they fit.

Users create them with keyword arguments. The CLI creates them from `--command-config` files and
`-X name=value` pairs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, get_type_hints

from floodmark.client.security_settings import SecuritySettings
from floodmark.client.unsupported_settings import (
    HONOURED,
    PLAINTEXT,
    SettingsError,
    UnsupportedSetting,
    refuse_unknown_security,
    refuse_unsupported,
)

__all__ = [
    "COMPRESSION_TYPES",
    "ClientSettings",
    "ConsumerSettings",
    "ProducerSettings",
    "SettingsError",
    "UnsupportedSetting",
]

MIB = 1024 * 1024

# Kafka's lowest values. Below them a client would spin or wait for ever.
_LOWEST: Mapping[str, int] = {
    **dict.fromkeys(("request_timeout_ms", "default_api_timeout_ms", "metadata_max_age_ms"), 0),
    **dict.fromkeys(("retry_backoff_ms", "retry_backoff_max_ms"), 0),
    **dict.fromkeys(("batch_size", "linger_ms", "max_request_size", "max_block_ms"), 0),
    **dict.fromkeys(("delivery_timeout_ms", "retries"), 0),
    **dict.fromkeys(("fetch_min_bytes", "fetch_max_bytes", "fetch_max_wait_ms"), 0),
    **dict.fromkeys(("max_partition_fetch_bytes", "auto_commit_interval_ms"), 0),
    **dict.fromkeys(("max_poll_records", "max_poll_interval_ms"), 1),
    **dict.fromkeys(("buffer_memory", "max_in_flight_requests_per_connection"), 1),
}
# Kafka's settings of type long. All others must fit into 32 bits, like the fields of requests.
_LONGS = frozenset(
    {
        *("metadata_max_age_ms", "connections_max_idle_ms", "socket_connection_setup_timeout_ms"),
        *("retry_backoff_ms", "retry_backoff_max_ms", "max_block_ms", "buffer_memory"),
    }
)
_HIGHEST_INT, _HIGHEST_LONG = 2**31 - 1, 2**63 - 1

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_WORDS: Mapping[type, str] = {bool: "true or false", int: "an integer", float: "a number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings(SecuritySettings):
    """Settings every client needs to reach a cluster."""

    client_id: str = "floodmark"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    socket_connection_setup_timeout_ms: int = 10_000
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    # Whether requesting a topic may create it: only producers need that.
    allow_auto_create_topics: bool = False

    # Kafka's and librdkafka's names that differ from the field name with dots.
    ALIASES: ClassVar[Mapping[str, str]] = {"sasl.mechanisms": "sasl_mechanism"}

    def __post_init__(self) -> None:
        self.check_security()
        self._check_bounds()

    def _check_bounds(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name, lowest)
            if value < lowest:
                dotted = name.replace("_", ".")
                raise SettingsError(f"{dotted}={value} is invalid: use {lowest} or more")
        for name in (field.name for field in dataclasses.fields(self)):
            value = getattr(self, name)
            highest = _HIGHEST_LONG if name in _LONGS else _HIGHEST_INT
            if isinstance(value, int) and value > highest:
                dotted = name.replace("_", ".")
                raise SettingsError(f"{dotted}={value} is invalid: use {highest} or less")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> tuple[Self, list[str]]:
        """Builds settings from Kafka's dotted names. Also returns the names it ignored.

            settings, ignored = ProducerSettings.from_properties({"acks": "all", "linger.ms": "20"})

        Raises SettingsError for an invalid value, and its subclass UnsupportedSetting where
        ignoring the setting would break a promise, as with `partitioner.class`.
        """
        refuse_unsupported(properties)
        types = get_type_hints(cls)
        fields = {field.name for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        unknown: list[str] = []
        for name, text in properties.items():
            field = cls.ALIASES.get(name, name.replace(".", "_").replace("-", "_"))
            if field in fields:
                values[field] = _parse(name, text, types[field])
            elif name not in HONOURED:
                unknown.append(name)
        settings = cls(**values)
        if settings.security_protocol != PLAINTEXT:
            refuse_unknown_security(unknown)
        return settings, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """How the producer batches records and how long it retries."""

    # "all", "0" and "1" are accepted and become -1, 0 and 1.
    acks: int | str = -1
    batch_size: int = 16_384
    linger_ms: float = 5
    buffer_memory: int = 32 * MIB
    max_request_size: int = MIB
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    max_in_flight_requests_per_connection: int = 5
    compression_type: str = "none"
    enable_idempotence: bool = True
    retries: int = 2**31 - 1
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    allow_auto_create_topics: bool = True

    def __post_init__(self) -> None:
        self.check_security()
        self._check_bounds()
        object.__setattr__(self, "acks", _ACKS_BY_NAME.get(str(self.acks).strip(), self.acks))
        _one_of("acks", self.acks, (-1, 0, 1), shown="all, -1, 0, 1")
        _one_of("compression.type", self.compression_type, COMPRESSION_TYPES)
        if self.transactional_id is not None:
            self._check_transactional(self.transactional_id)

    def _check_transactional(self, transactional_id: str) -> None:
        if not transactional_id:
            raise SettingsError("transactional.id must not be empty: leave it out instead")
        if not self.idempotent:
            raise SettingsError(
                "transactional.id needs acks=all, retries and enable.idempotence=true"
            )

    @property
    def idempotent(self) -> bool:
        """Idempotence needs acks=all and retries. Weaker settings turn it off, as in Kafka."""
        return self.enable_idempotence and self.acks == -1 and self.retries > 0

    @property
    def required_acks(self) -> int:
        """`acks` as sent in requests: -1 for all in-sync replicas, 0 or 1."""
        return int(self.acks)


ASSIGNMENT_STRATEGIES: Mapping[str, str] = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_ACKS_BY_NAME = {"all": -1, "-1": -1, "0": 0, "1": 1}
COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """How much to prefetch, what is visible, and where to start without a position."""

    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * MIB
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = MIB
    max_poll_records: int = 500
    isolation_level: str = "read_uncommitted"
    auto_offset_reset: str = "latest"
    check_crcs: bool = True
    group_id: str | None = None
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    partition_assignment_strategy: str = "range,cooperative-sticky"
    exclude_internal_topics: bool = True

    def __post_init__(self) -> None:
        self.check_security()
        self._check_bounds()
        _one_of("isolation.level", self.isolation_level, ("read_uncommitted", "read_committed"))
        _one_of("auto.offset.reset", self.auto_offset_reset, ("earliest", "latest", "none"))
        for name in self.assignors:
            _one_of("partition.assignment.strategy", name, tuple(ASSIGNMENT_STRATEGIES.values()))
        if not self.assignors:
            raise SettingsError("partition.assignment.strategy must name at least one assignor")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise SettingsError("heartbeat.interval.ms must be less than session.timeout.ms")

    @property
    def assignors(self) -> list[str]:
        """Assignor names in order of preference. Accepts Java's class names."""
        names = [name.strip() for name in self.partition_assignment_strategy.split(",")]
        return [ASSIGNMENT_STRATEGIES.get(name, name) for name in names if name]

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are skipped."""
        return self.isolation_level == "read_committed"


def _one_of(
    name: str, value: object, allowed: tuple[object, ...], shown: str | None = None
) -> None:
    # Compare types too: True and 1.0 equal 1, but are mistakes.
    if value not in allowed or type(value) is not type(allowed[0]):
        choices = shown or ", ".join(str(item) for item in allowed)
        raise SettingsError(f"{name}={value} is invalid: use one of {choices}")


def _parse(name: str, text: str, kind: type) -> int | float | bool | str:
    text = text.strip()
    try:
        if kind is bool:
            return _parse_bool(text)
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
    except ValueError:
        raise SettingsError(f"{name}={text} is invalid: use {_WORDS[kind]}") from None
    return text


def _parse_bool(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)
