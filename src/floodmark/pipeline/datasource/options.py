"""The data source's options, with the names of Spark's Kafka connector.

Readers and writers parse them once on the driver and send the result to the workers. Option names
are case-insensitive, as everywhere in Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from floodmark.client.cluster.cluster import parse_servers
from floodmark.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    SettingsError,
)
from floodmark.client.unsupported_settings import PLAINTEXT
from floodmark.pipeline.datasource.connecting import BROKER_ABSENCE_MS
from floodmark.pipeline.datasource.offsets import OffsetRule, ending_rule, starting_rule
from floodmark.pipeline.datasource.read_limits import Limits
from floodmark.pipeline.datasource.topic_patterns import compile_pattern
from floodmark.pipeline.errors import OptionError

MIB = 1024 * 1024
CLIENT_PREFIX = "kafka."
DEFAULT_GROUP_PREFIX = "floodmark-spark"

Settings = TypeVar("Settings", bound=ClientSettings)

# Larger than the client's own defaults: a task reads only one partition, and large responses keep
# columns long. All waits for brokers have the same limit.
_READ_DEFAULTS = {
    "max.partition.fetch.bytes": str(4 * MIB),
    "isolation.level": "read_committed",
    "default.api.timeout.ms": str(BROKER_ABSENCE_MS),
    "client.id": "floodmark-spark",
}
_WRITE_DEFAULTS = {
    "batch.size": str(256 * 1024),
    "delivery.timeout.ms": str(BROKER_ABSENCE_MS),
    "default.api.timeout.ms": str(BROKER_ABSENCE_MS),
    "max.block.ms": str(BROKER_ABSENCE_MS),
    "client.id": "floodmark-spark",
    # Enough for a slow task, but below the broker's limit (transaction.max.timeout.ms).
    "transaction.timeout.ms": "600000",
}
# What the connector refuses, because the query itself determines it.
_REFUSED_FOR_READS = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "the checkpoint holds the position",
    "key.deserializer": "keys arrive as bytes, cast them in the query",
    "value.deserializer": "values arrive as bytes, cast them in the query",
    "interceptor.classes": "there are no Java classes here",
}
_REFUSED_FOR_STREAMS = (
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "latestByKey",
    "readLimits",
)
_REFUSED_WITH_LATEST_BY_KEY = ("minPartitions", "maxRecordsPerPartition")
_REFUSED_FOR_WRITES = {
    "key.serializer": "keys are written as they are, cast them in the query",
    "value.serializer": "values are written as they are, cast them in the query",
    "transactional.id": "this sink does not use transactions; "
    "floodmark.pipeline.datasource.batch_writers.exactly_once does",
}


class Options:
    """Spark's options with lower-case names, and accessors that explain invalid values."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return None if text is None else Path(text)

    def whole(self, name: str, lowest: int = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if number < lowest:
            raise OptionError(f"option {name} is {text!r}: use an integer of at least {lowest}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"option {name} is {text!r}: use true or false")
        return text.lower() == "true"

    def duration_ms(self, name: str, default_ms: int) -> int:
        text = self.text(name)
        return default_ms if text is None else parse_duration_ms(name, text)

    def bootstrap_servers(self) -> str:
        servers = self.text("kafka.bootstrap.servers")
        if not servers:
            raise OptionError(
                "option kafka.bootstrap.servers is missing: name the brokers as host:port"
            )
        try:
            parse_servers(servers, (self.text("kafka.security.protocol") or PLAINTEXT).upper())
        except ValueError as error:
            raise OptionError(f"option kafka.bootstrap.servers is invalid: {error}") from error
        return servers

    def client_properties(
        self, defaults: Mapping[str, str], refused: Mapping[str, str]
    ) -> dict[str, str]:
        """The `kafka.` options as client settings, over our defaults."""
        given = {
            name.removeprefix(CLIENT_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(CLIENT_PREFIX)
        }
        for name, advice in refused.items():
            if name in given:
                raise OptionError(f"option kafka.{name} cannot be set here: {advice}")
        return {**defaults, **given}


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(name: str, text: str) -> int:
    """Parses `15m`, `30s`, `500ms`. As in Spark, a plain number is milliseconds."""
    digits = text.lower().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip().lower() or "ms"
    if not digits.isdigit() or unit not in _UNITS_MS:
        raise OptionError(f"option {name} is {text!r}: use a duration such as 15m or 30s")
    return int(digits) * _UNITS_MS[unit]


@dataclass(frozen=True)
class Subscription:
    """The topics: exactly one of names, a pattern, or partitions by topic."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def covers(self, topic: str) -> bool:
        if self.pattern is not None:
            return compile_pattern(self.pattern).search(topic) is not None
        return topic in self.topics or topic in self.assigned

    def __str__(self) -> str:
        return self.pattern or ",".join(self.topics or self.assigned)


@dataclass(frozen=True)
class ReadOptions:
    """Everything a read needs. Created on the driver, pickled to the workers."""

    bootstrap_servers: str
    subscription: Subscription
    starting: OffsetRule
    ending: OffsetRule
    client: ConsumerSettings
    group_id: str
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    topic_ids_file: Path | None = None
    # Only the last record of each key in its partition.
    latest_by_key: bool = False
    # What `floodmark.pipeline.where` found in a query's condition.
    limits: Limits | None = None


@dataclass(frozen=True)
class WriteOptions:
    bootstrap_servers: str
    topic: str | None
    client: ProducerSettings


def parse_read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    given = Options(options)
    properties = given.client_properties(_READ_DEFAULTS, _REFUSED_FOR_READS)
    for name in _REFUSED_FOR_STREAMS if streaming else ():
        if given.text(name) is not None:
            raise OptionError(
                f"option {name} is for batch reads: a stream has no end. Remove it, or use "
                "spark.read"
            )
    if given.flag("latestByKey", False):
        for name in _REFUSED_WITH_LATEST_BY_KEY:
            if given.text(name) is not None:
                raise OptionError(
                    f"option {name} cannot be used with latestByKey: a partition's last records "
                    "are read by one task. Remove it"
                )
    subscription = _subscription(given)
    servers = given.bootstrap_servers()
    maximum = given.whole("maxOffsetsPerTrigger")
    minimum = given.whole("minOffsetsPerTrigger")
    if maximum is not None and minimum is not None and minimum > maximum:
        raise OptionError(
            f"minOffsetsPerTrigger ({minimum}) is above maxOffsetsPerTrigger ({maximum}): "
            "no batch could satisfy both"
        )
    return ReadOptions(
        bootstrap_servers=servers,
        subscription=subscription,
        starting=starting_rule(given.text, streaming=streaming),
        ending=ending_rule(given.text),
        client=_settings(ConsumerSettings, properties),
        group_id=properties.get("group.id") or _group_id(given, subscription),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        min_partitions=given.whole("minPartitions"),
        max_records_per_partition=given.whole("maxRecordsPerPartition"),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=given.duration_ms("maxTriggerDelay", 15 * 60_000),
        topic_ids_file=given.path("topicIdsFile"),
        latest_by_key=given.flag("latestByKey", False),
        limits=_limits(given),
    )


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    given = Options(options)
    properties = given.client_properties(_WRITE_DEFAULTS, _REFUSED_FOR_WRITES)
    if properties.get("acks", "").strip() == "0":
        # A task ends once its rows are written, so it needs acknowledgements.
        properties["acks"] = "1"
    return WriteOptions(
        bootstrap_servers=given.bootstrap_servers(),
        topic=given.text("topic"),
        client=_settings(ProducerSettings, properties),
    )


def check_exactly_once(options: WriteOptions) -> None:
    """A transaction commits the mark, so the rows must be as safe as it is."""
    if not options.client.idempotent:
        raise OptionError(
            "exactly once needs the defaults of kafka.acks (all), kafka.enable.idempotence and "
            "kafka.retries: remove what changes them, or write at least once"
        )


def _limits(given: Options) -> Limits | None:
    text = given.text("readLimits")
    if text is not None and given.flag("latestByKey", False):
        raise OptionError(
            "option readLimits cannot be used with latestByKey: a key's last record may be anywhere"
        )
    return None if text is None else Limits.of_text(text)


def _settings(kind: type[Settings], properties: Mapping[str, str]) -> Settings:
    try:
        settings, _ = kind.from_properties(properties)
    except SettingsError as error:
        raise OptionError(f"a kafka. option is invalid: {error}") from error
    return settings


def _subscription(given: Options) -> Subscription:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if given.text(name)]
    if len(names) != 1:
        what = "none is given" if not names else f"{' and '.join(names)} are given"
        raise OptionError(
            f"choose topics with exactly one of subscribe, subscribePattern and assign: {what}"
        )
    text = given.text(names[0]) or ""
    if names[0] == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise OptionError(f"option subscribe is {text!r}: name at least one topic")
        return Subscription(topics=topics)
    if names[0] == "subscribePattern":
        compile_pattern(text)
        return Subscription(pattern=text)
    return Subscription(assigned=_assigned(text))


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    try:
        return {
            str(topic): tuple(int(partition) for partition in partitions)
            for topic, partitions in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise OptionError(
            f'option assign is {text!r}: use JSON such as {{"orders": [0, 1]}}'
        ) from None


def _group_id(given: Options, subscription: Subscription) -> str:
    """The same query gets the same group after a restart, so its lag stays in one place."""
    prefix = given.text("groupIdPrefix") or DEFAULT_GROUP_PREFIX
    name = "".join(c if c.isalnum() or c in "._-" else "-" for c in str(subscription))
    return f"{prefix}-{name}"[:200]
