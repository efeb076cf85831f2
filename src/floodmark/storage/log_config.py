"""A topic's settings for the log, from their dotted names.

Created by the broker when a topic is created or altered. The log reads plain fields on its hot
path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from floodmark.records.batch import TimestampType
from floodmark.records.compression import Compression
from floodmark.records.validation import NO_LIMIT_MS, ProduceRules

UNLIMITED: Final = (1 << 63) - 1


@dataclass(slots=True, frozen=True)
class LogConfig:
    """The topic settings of the same names, with Kafka 4.3's defaults.

    Only `segment_ms` may be lower than its setting: see `log_config_from`.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    max_message_bytes: int = 1_048_588
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNLIMITED
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        return "delete" in self.cleanup_policy


_INTEGERS: Final = (
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "index.interval.bytes",
    "retention.ms",
    "retention.bytes",
    "flush.messages",
    "flush.ms",
    "max.message.bytes",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "file.delete.delay.ms",
)


def log_config_from(settings: Mapping[str, object]) -> LogConfig:
    """Converts settings by dotted name, as text or typed. Missing ones have their default."""
    fields: dict[str, Any] = {
        name.replace(".", "_"): int(str(settings[name])) for name in _INTEGERS if name in settings
    }
    if "min.cleanable.dirty.ratio" in settings:
        fields["min_cleanable_dirty_ratio"] = float(str(settings["min.cleanable.dirty.ratio"]))
    if "cleanup.policy" in settings:
        fields["cleanup_policy"] = _names(settings["cleanup.policy"])
    config = LogConfig(**fields)
    if config.is_compacted and config.max_compaction_lag_ms < config.segment_ms:
        # Only records outside the active segment can be compacted (KIP-354).
        return replace(config, segment_ms=config.max_compaction_lag_ms)
    return config


def produce_rules_from(
    settings: Mapping[str, object], *, check_records: bool = False
) -> ProduceRules:
    """The validation rules for what clients send to this topic."""
    codec = str(settings.get("compression.type", "producer"))
    compression = {"producer": None, "uncompressed": Compression.NONE}.get(codec)
    if codec not in ("producer", "uncompressed"):
        compression = Compression[codec.upper()]
    level = settings.get(f"compression.{codec}.level")
    by_broker = str(settings.get("message.timestamp.type", "CreateTime")) == "LogAppendTime"
    return ProduceRules(
        max_message_bytes=int(str(settings.get("max.message.bytes", 1_048_588))),
        is_compacted="compact" in _names(settings.get("cleanup.policy", "delete")),
        timestamp_type=TimestampType.LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=int(
            str(settings.get("message.timestamp.before.max.ms", NO_LIMIT_MS))
        ),
        timestamp_after_max_ms=int(str(settings.get("message.timestamp.after.max.ms", 3_600_000))),
        compression=compression,
        compression_level=None if level is None else int(str(level)),
        check_records=check_records,
    )


def _names(value: object) -> frozenset[str]:
    """A list setting, as text or already split."""
    if isinstance(value, str):
        return frozenset(name.strip() for name in value.split(",") if name.strip())
    if isinstance(value, list | tuple | set | frozenset):
        return frozenset(str(name) for name in value)
    raise TypeError(f"a list setting must be text or a list, not {type(value).__name__}")
