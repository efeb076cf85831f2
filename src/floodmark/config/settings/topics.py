"""Topic settings, each with the broker settings that apply if the topic does not set it."""

from __future__ import annotations

from floodmark.config.setting import MEDIUM, UpdateMode
from floodmark.config.setting import Synonym as Falls
from floodmark.config.setting import TopicSetting as Topic
from floodmark.config.settings.log import CLEANUP_POLICIES, TIMESTAMP_TYPES
from floodmark.config.settings.server import COMPRESSION_TYPES
from floodmark.config.validators import (
    ListOf,
    OneOf,
    RangeOr,
    ThrottledReplicas,
    Validator,
    at_least,
    between,
)
from floodmark.config.values import LONG_MAX, Value, ValueType

BOOLEAN, INT, LONG = ValueType.BOOLEAN, ValueType.INT, ValueType.LONG
STRING, LIST, DOUBLE = ValueType.STRING, ValueType.LIST, ValueType.DOUBLE

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def _topic(
    name: str,
    value_type: ValueType,
    default: Value,
    documentation: str,
    validator: Validator | None,
    *synonyms: str | Falls,
) -> Topic:
    """All topic settings have medium importance and can change at any time."""
    falls_to = tuple(Falls(item) if isinstance(item, str) else item for item in synonyms)
    return Topic(
        name, value_type, default, MEDIUM, documentation, validator, UpdateMode.CLUSTER_WIDE,
        synonyms=falls_to,
    )  # fmt: skip


TOPIC_SETTINGS = (
    _topic(
        "cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old records: `delete` removes them by age and size, `compact` keeps the "
        "last of each key. May be both.",
        ListOf(CLEANUP_POLICIES),
        "log.cleanup.policy",
    ),
    _topic(
        "compression.gzip.level",
        INT,
        -1,
        "The gzip level when the broker compresses; -1 is the codec's default.",
        RangeOr(1, 9, -1),
        "compression.gzip.level",
    ),
    _topic(
        "compression.lz4.level",
        INT,
        9,
        "The lz4 level when the broker compresses.",
        between(1, 17),
        "compression.lz4.level",
    ),
    _topic(
        "compression.type",
        STRING,
        "producer",
        "The compression of stored batches; `producer` keeps the producer's choice.",
        OneOf(COMPRESSION_TYPES),
        "compression.type",
    ),
    _topic(
        "compression.zstd.level",
        INT,
        3,
        "The zstd level when the broker compresses.",
        between(-131072, 22),
        "compression.zstd.level",
    ),
    _topic(
        "delete.retention.ms",
        LONG,
        86400000,
        "How long a tombstone stays readable after compaction.",
        at_least(0),
        "log.cleaner.delete.retention.ms",
    ),
    _topic(
        "file.delete.delay.ms",
        LONG,
        60000,
        "How long a removed segment file stays on disk, so that readers can finish.",
        at_least(0),
        "log.segment.delete.delay.ms",
    ),
    _topic(
        "flush.messages",
        LONG,
        LONG_MAX,
        "How many records to write before the log is flushed to disk; by default the operating "
        "system decides.",
        at_least(1),
        "log.flush.interval.messages",
    ),
    _topic(
        "flush.ms",
        LONG,
        LONG_MAX,
        "The maximum time before records are flushed to disk.",
        at_least(0),
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    _topic(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "The replicas whose fetching counts against the follower throttle; `*` for all.",
        ThrottledReplicas(),
    ),
    _topic(
        "index.interval.bytes",
        INT,
        4096,
        "How many bytes of records there are between two index entries.",
        at_least(0),
        "log.index.interval.bytes",
    ),
    _topic(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "The replicas whose traffic counts against the leader throttle; `*` for all.",
        ThrottledReplicas(),
    ),
    _topic(
        "local.retention.bytes",
        LONG,
        -2,
        "The size of a partition that stays on local disk with tiered storage; -2 for "
        "`retention.bytes`.",
        at_least(-2),
        "log.local.retention.bytes",
    ),
    _topic(
        "local.retention.ms",
        LONG,
        -2,
        "How long records stay on local disk with tiered storage; -2 for `retention.ms`.",
        at_least(-2),
        "log.local.retention.ms",
    ),
    _topic(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "The maximum time a record stays uncompacted.",
        at_least(1),
        "log.cleaner.max.compaction.lag.ms",
    ),
    _topic(
        "max.message.bytes",
        INT,
        1048588,
        "The maximum size of a record batch, as it arrives (compressed).",
        at_least(0),
        "message.max.bytes",
    ),
    _topic(
        "message.timestamp.after.max.ms",
        LONG,
        3600000,
        "How far a producer's timestamp may lie in the future.",
        at_least(0),
        "log.message.timestamp.after.max.ms",
    ),
    _topic(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a producer's timestamp may lie in the past.",
        at_least(0),
        "log.message.timestamp.before.max.ms",
    ),
    _topic(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether a record's timestamp is set by its producer or when it is appended.",
        OneOf(TIMESTAMP_TYPES),
        "log.message.timestamp.type",
    ),
    _topic(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "The minimum share of uncompacted data before the log is compacted.",
        between(0, 1),
        "log.cleaner.min.cleanable.ratio",
    ),
    _topic(
        "min.compaction.lag.ms",
        LONG,
        0,
        "The minimum time a record stays uncompacted.",
        at_least(0),
        "log.cleaner.min.compaction.lag.ms",
    ),
    _topic(
        "min.insync.replicas",
        INT,
        1,
        "How many replicas must be in sync for a write with acks=all to be accepted.",
        at_least(1),
        "min.insync.replicas",
    ),
    _topic(
        "preallocate",
        BOOLEAN,
        False,
        "Whether to preallocate a new segment file.",
        None,
        "log.preallocate",
    ),
    _topic(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        "Whether to stop copying to tiered storage.",
        None,
    ),
    _topic(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        "Whether to delete the copies when tiered storage is disabled for the topic.",
        None,
    ),
    _topic(
        "remote.storage.enable",
        BOOLEAN,
        False,
        "Whether to use tiered storage, which is not supported here: only false is accepted.",
        None,
    ),
    _topic(
        "retention.bytes",
        LONG,
        -1,
        "The size of a partition above which its oldest segments are deleted; -1 for no limit.",
        None,
        "log.retention.bytes",
    ),
    _topic(
        "retention.ms",
        LONG,
        604800000,
        "How long records are kept; -1 for forever.",
        at_least(-1),
        "log.retention.ms",
        Falls("log.retention.minutes", MINUTE_MS),
        Falls("log.retention.hours", HOUR_MS),
    ),
    _topic(
        "segment.bytes",
        INT,
        1073741824,
        "The size at which a segment file is closed and the next one started.",
        at_least(1048576),
        "log.segment.bytes",
    ),
    _topic(
        "segment.index.bytes",
        INT,
        10485760,
        "The maximum size of an index file; a full index closes its segment.",
        at_least(4),
        "log.index.size.max.bytes",
    ),
    _topic(
        "segment.jitter.ms",
        LONG,
        0,
        "The maximum random reduction of segment.ms, so that segments do not all close at once.",
        at_least(0),
        "log.roll.jitter.ms",
        Falls("log.roll.jitter.hours", HOUR_MS),
    ),
    _topic(
        "segment.ms",
        LONG,
        604800000,
        "The age at which a segment is closed even if it is not full.",
        at_least(1),
        "log.roll.ms",
        Falls("log.roll.hours", HOUR_MS),
    ),
    _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether an out-of-sync replica may become leader when no other is left. Records are "
        "then lost.",
        None,
        "unclean.leader.election.enable",
    ),
)
