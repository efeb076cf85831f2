"""Settings of the broker as a whole: identity, threads, automatic topics, metrics.

Names, types, defaults and bounds are those of Apache Kafka 4.3. The descriptions are our own.
"""

from __future__ import annotations

from floodmark.config.setting import CLUSTER_WIDE, HIGH, LOW, MEDIUM, Setting
from floodmark.config.validators import OneOf, RangeOr, at_least, between
from floodmark.config.values import ValueType

BOOLEAN, INT, LONG = ValueType.BOOLEAN, ValueType.INT, ValueType.LONG
STRING = ValueType.STRING

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
DEFAULT_NODE_ID = 1

SERVER_SETTINGS = (
    Setting(
        "node.id",
        INT,
        DEFAULT_NODE_ID,
        HIGH,
        "The id of this broker, unique in its cluster. When it is not set, the id in the data "
        "folder is used.",
        at_least(0),
    ),
    Setting(
        "broker.id",
        INT,
        -1,
        HIGH,
        "The older name of node.id; when both are set they must agree.",
    ),
    Setting(
        "broker.rack",
        STRING,
        None,
        MEDIUM,
        "The rack or zone of this broker; replicas of a partition are spread over racks.",
    ),
    Setting(
        "num.io.threads",
        INT,
        8,
        HIGH,
        "How many requests to process at a time. A request that waits for data or replicas does "
        "not count.",
        at_least(1),
        CLUSTER_WIDE,
    ),
    Setting(
        "background.threads",
        INT,
        10,
        HIGH,
        "The maximum number of threads for slow background work, such as deleting files.",
        at_least(1),
        CLUSTER_WIDE,
    ),
    Setting(
        "num.replica.alter.log.dirs.threads",
        INT,
        None,
        HIGH,
        "How many replicas move between log folders at a time; one per log folder when not set.",
        at_least(1),
    ),
    Setting(
        "request.timeout.ms",
        INT,
        30000,
        HIGH,
        "How long this broker waits for the response to a request it sent to another broker.",
    ),
    Setting(
        "message.max.bytes",
        INT,
        1048588,
        HIGH,
        "The maximum size of a record batch, as it arrives (compressed). A topic may set its own "
        "limit as max.message.bytes.",
        at_least(0),
        CLUSTER_WIDE,
    ),
    Setting(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        HIGH,
        "Whether requesting metadata of a missing topic creates it.",
    ),
    Setting(
        "delete.topic.enable",
        BOOLEAN,
        True,
        HIGH,
        "Whether topics can be deleted; when false, DeleteTopics is refused.",
    ),
    Setting(
        "num.partitions",
        INT,
        1,
        MEDIUM,
        "The default number of partitions of a topic.",
        at_least(1),
    ),
    Setting(
        "compression.type",
        STRING,
        "producer",
        HIGH,
        "The compression of stored batches; `producer` keeps the producer's choice.",
        OneOf(COMPRESSION_TYPES),
        CLUSTER_WIDE,
    ),
    Setting(
        "compression.gzip.level",
        INT,
        -1,
        MEDIUM,
        "The gzip level used when the broker itself compresses; -1 is the codec's default.",
        RangeOr(1, 9, -1),
        CLUSTER_WIDE,
    ),
    Setting(
        "compression.lz4.level",
        INT,
        9,
        MEDIUM,
        "The lz4 level used when the broker itself compresses.",
        between(1, 17),
        CLUSTER_WIDE,
    ),
    Setting(
        "compression.zstd.level",
        INT,
        3,
        MEDIUM,
        "The zstd level used when the broker itself compresses.",
        between(-131072, 22),
        CLUSTER_WIDE,
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        MEDIUM,
        "How many incremental fetch sessions are remembered; further consumers send whole fetch "
        "requests.",
        at_least(0),
    ),
    Setting(
        "fetch.max.bytes",
        INT,
        57671680,
        MEDIUM,
        "The maximum size of a fetch response, whatever the consumer asks for.",
        at_least(1024),
    ),
    Setting(
        "max.request.partition.size.limit",
        INT,
        2000,
        MEDIUM,
        "The maximum number of partitions in a DescribeTopicPartitions response.",
        at_least(1),
    ),
    Setting(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        MEDIUM,
        "Whether a stopping broker first hands over its partitions.",
    ),
    Setting(
        "telemetry.max.bytes",
        INT,
        1048576,
        LOW,
        "The maximum size of a metrics report from a client.",
        at_least(1),
    ),
    Setting(
        "metrics.num.samples",
        INT,
        2,
        LOW,
        "How many samples a windowed metric keeps.",
        at_least(1),
    ),
    Setting(
        "metrics.sample.window.ms",
        LONG,
        30000,
        LOW,
        "The length of one sample of a windowed metric.",
        at_least(1),
    ),
    Setting(
        "metrics.recording.level",
        STRING,
        "INFO",
        LOW,
        "The lowest level of detail at which metrics are recorded: INFO, DEBUG or TRACE.",
    ),
    Setting(
        "floodmark.produce.full.check",
        BOOLEAN,
        False,
        MEDIUM,
        "Check the records of every produced batch, as Apache Kafka does. Off by default: a "
        "batch's header and checksum are always checked, its records only where a rule needs "
        "it.",
    ),
    Setting(
        "floodmark.metrics.max.topics",
        INT,
        200,
        LOW,
        "How many topics get their own series at /metrics; the others are summed into one.",
        at_least(0),
    ),
    Setting(
        "floodmark.metrics.max.groups",
        INT,
        200,
        LOW,
        "How many consumer groups get their own series at /metrics; the others are only counted.",
        at_least(0),
    ),
    Setting(
        "floodmark.cluster.dir",
        STRING,
        "",
        MEDIUM,
        "The folder in which several brokers on one machine keep their cluster's metadata. Empty "
        "for a single broker.",
    ),
    Setting(
        "floodmark.request.max.entries",
        INT,
        20_000,
        LOW,
        "How many topics, partitions, groups and similar items one request may name; two plain "
        "numbers count as one. A request blocks all others while it is processed, for up to ten "
        "milliseconds per thousand items.",
        at_least(1),
    ),
)
