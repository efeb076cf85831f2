"""Rules that involve several settings. Checked whenever a BrokerConfig is created."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from floodmark.config.errors import ConfigError
from floodmark.config.values import INT_MAX

if TYPE_CHECKING:
    from floodmark.config.broker_config import BrokerConfig

MIN_DEDUPE_BYTES_PER_THREAD = 1024 * 1024


def check_together(config: BrokerConfig) -> None:
    """Raises ConfigError for the first broken rule."""
    _check_node_id(config)
    _check_roles(config)
    _check_log(config)
    _check_replication(config)
    _check_network(config)
    _check_groups(config)


def _require(holds: bool, message: str, name: str) -> None:
    if not holds:
        raise ConfigError(
            message, name=name, hint=f"Change {name} or the setting it is compared with"
        )


def _check_node_id(config: BrokerConfig) -> None:
    broker_id = config.get_int("broker.id")
    if config.is_set("node.id") and broker_id >= 0:
        _require(
            broker_id == config.get_int("node.id"),
            "You must set `node.id` to the same value as `broker.id`.",
            "broker.id",
        )


def _check_roles(config: BrokerConfig) -> None:
    roles = config.get_list("process.roles")
    if roles and "broker" not in roles:
        raise ConfigError(
            "process.roles asks for a controller without a broker, which is not supported",
            name="process.roles",
            hint="Do not start this process: the broker is its own controller",
        )


def _check_log(config: BrokerConfig) -> None:
    retention_ms = config.topic_defaults["retention.ms"]
    segment_ms = config.topic_defaults["segment.ms"]
    jitter_ms = config.topic_defaults["segment.jitter.ms"]
    _require(
        isinstance(retention_ms, int) and (retention_ms >= 1 or retention_ms == -1),
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        "log.retention.ms",
    )
    _require(
        isinstance(segment_ms, int) and segment_ms >= 1,
        "log.roll.ms must be greater than or equal to 1",
        "log.roll.ms",
    )
    _require(
        isinstance(jitter_ms, int) and jitter_ms >= 0,
        "log.roll.jitter.ms must be greater than or equal to 0",
        "log.roll.jitter.ms",
    )
    threads = max(1, config.get_int("log.cleaner.threads"))
    _require(
        config.get_int("log.cleaner.dedupe.buffer.size") // threads > MIN_DEDUPE_BYTES_PER_THREAD,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        "log.cleaner.dedupe.buffer.size",
    )


def _check_replication(config: BrokerConfig) -> None:
    fetch_wait_ms = config.get_int("replica.fetch.wait.max.ms")
    _require(
        fetch_wait_ms <= config.get_int("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms",
        "replica.socket.timeout.ms",
    )
    _require(
        fetch_wait_ms <= config.get_int("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms",
        "replica.fetch.wait.max.ms",
    )


def _check_network(config: BrokerConfig) -> None:
    queued_bytes = config.get_int("queued.max.request.bytes")
    _require(
        queued_bytes <= 0 or queued_bytes >= config.get_int("socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        "queued.max.request.bytes",
    )
    if config.get_int("max.connections.per.ip") == 0:
        _require(
            bool(config.get_str("max.connections.per.ip.overrides")),
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set.",
            "max.connections.per.ip",
        )
    connection_limits(config.get_str("max.connections.per.ip.overrides"))


def _check_groups(config: BrokerConfig) -> None:
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        low = config.get_int(f"group.consumer.min.{name}")
        high = config.get_int(f"group.consumer.max.{name}")
        value = config.get_int(f"group.consumer.{name}")
        _require(
            low <= value <= high,
            f"group.consumer.{name} must be between group.consumer.min.{name} ({low}) and "
            f"group.consumer.max.{name} ({high})",
            f"group.consumer.{name}",
        )
    _require(
        config.get_int("group.min.session.timeout.ms")
        <= config.get_int("group.max.session.timeout.ms"),
        "group.max.session.timeout.ms must be greater than or equal to "
        "group.min.session.timeout.ms",
        "group.max.session.timeout.ms",
    )


_LIMIT = re.compile(r"[0-9]{1,10}")


def connection_limits(text: str) -> dict[str, int]:
    """Parses `max.connections.per.ip.overrides`, host:limit pairs. Also used by network/."""
    setting = "max.connections.per.ip.overrides"
    limits: dict[str, int] = {}
    for pair in filter(None, (item.strip() for item in text.split(","))):
        host, colon, limit = pair.rpartition(":")
        # Ten digits hold every limit. Python refuses to parse thousands of them.
        if not colon or not _LIMIT.fullmatch(limit.strip()) or int(limit) > INT_MAX:
            raise ConfigError.bad_value(setting, text, f"'{pair}' is not of the form host:limit")
        limits[host.strip()] = int(limit)
    return limits
