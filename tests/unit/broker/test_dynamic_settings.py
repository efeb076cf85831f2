"""Every dynamic setting of the broker that acts does so at the change, after the next start, and
gives way to the default when it is removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from floodmark.broker.broker import Broker
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import ConfigChange, ConfigResource, ResourceOutcome
from floodmark.config.not_served import WITHOUT_EFFECT
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME
from floodmark.records.batch import TimestampType
from floodmark.records.compression import Compression
from floodmark.replication.replica import Replica
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.numbers import ConfigOperation
from kit.waiting import wait_for

Probe = Callable[[Broker], Any]


def replica_of(broker: Broker) -> Replica:
    found = broker.replicas.find(("t", 0))
    assert found is not None
    return found


def log(field: str) -> Probe:
    return lambda broker: getattr(replica_of(broker).log.config, field)


def rules(field: str) -> Probe:
    return lambda broker: getattr(replica_of(broker).rules, field)


def throttle(field: str) -> Probe:
    return lambda broker: getattr(broker.replicas.quotas, field).limit_bytes


def limit(field: str) -> Probe:
    return lambda broker: getattr(broker.network.limits, field)


def cleaner(field: str) -> Probe:
    def probe(broker: Broker) -> Any:
        assert broker.cleaning.cleaner is not None
        return getattr(broker.cleaning.cleaner.settings, field)

    return probe


def level(broker: Broker) -> int | None:
    return replica_of(broker).rules.compression_level


# The setting, a value, where it acts, and what is seen there.
ACTING: dict[str, tuple[str, Probe, Any]] = {
    "num.io.threads": ("5", lambda broker: broker.network.channel.slots, 5),
    "leader.replication.throttled.rate": ("11", throttle("leader"), 11),
    "follower.replication.throttled.rate": ("12", throttle("follower"), 12),
    "replica.alter.log.dirs.io.max.bytes.per.second": ("13", throttle("alter_log_dirs"), 13),
    "message.max.bytes": ("2000", rules("max_message_bytes"), 2000),
    "compression.type": ("zstd", rules("compression"), Compression.ZSTD),
    "compression.zstd.level": ("7", level, 7),
    "max.connections": ("900", limit("max_connections"), 900),
    "max.connection.creation.rate": (
        "600",
        lambda broker: broker.network.limits.rates.limits_of_listeners,
        {"": 600.0},
    ),
    "max.connections.per.ip": ("800", limit("max_per_address"), 800),
    "max.connections.per.ip.overrides": ("h:7", limit("per_address_overrides"), {"h": 7}),
    "listener.name.plaintext.max.connections": (
        "700",
        limit("max_per_listener"),
        {"PLAINTEXT": 700},
    ),
    "min.insync.replicas": ("3", lambda broker: replica_of(broker).min_in_sync_replicas, 3),
    "unclean.leader.election.enable": (
        "true",
        lambda broker: broker.metadata.topic_config("t").get_bool("unclean.leader.election.enable"),
        True,
    ),
    "log.segment.bytes": ("2000000", log("segment_bytes"), 2000000),
    "log.roll.ms": ("5000", log("segment_ms"), 5000),
    "log.roll.jitter.ms": ("50", log("segment_jitter_ms"), 50),
    "log.retention.ms": ("6000", log("retention_ms"), 6000),
    "log.retention.bytes": ("7000", log("retention_bytes"), 7000),
    "log.cleanup.policy": ("compact", log("cleanup_policy"), {"compact"}),
    "log.index.size.max.bytes": ("8000", log("segment_index_bytes"), 8000),
    "log.index.interval.bytes": ("900", log("index_interval_bytes"), 900),
    "log.flush.interval.messages": ("10", log("flush_messages"), 10),
    "log.flush.interval.ms": ("1100", log("flush_ms"), 1100),
    "log.segment.delete.delay.ms": ("12", log("file_delete_delay_ms"), 12),
    "log.message.timestamp.type": (
        "LogAppendTime",
        rules("timestamp_type"),
        TimestampType.LOG_APPEND_TIME,
    ),
    "log.message.timestamp.before.max.ms": ("13", rules("timestamp_before_max_ms"), 13),
    "log.message.timestamp.after.max.ms": ("14", rules("timestamp_after_max_ms"), 14),
    "log.cleaner.io.max.bytes.per.second": ("15", cleaner("io_bytes_per_second"), 15),
    "log.cleaner.dedupe.buffer.size": ("16000000", cleaner("dedupe_buffer_bytes"), 16000000),
    "log.cleaner.backoff.ms": ("17000", cleaner("backoff_ms"), 17000),
    "log.cleaner.min.cleanable.ratio": ("0.25", log("min_cleanable_dirty_ratio"), 0.25),
    "log.cleaner.delete.retention.ms": ("18", log("delete_retention_ms"), 18),
    "log.cleaner.min.compaction.lag.ms": ("19", log("min_compaction_lag_ms"), 19),
    "log.cleaner.max.compaction.lag.ms": ("200000", log("max_compaction_lag_ms"), 200000),
    "group.consumer.assignment.interval.ms": (
        "2100",
        lambda broker: broker.services.groups.surroundings.settings.consumer_assignment_interval_ms,
        2100,
    ),
    "transaction.partition.verification.enable": (
        "false",
        lambda broker: broker.services.config.get_bool("transaction.partition.verification.enable"),
        False,
    ),
    "producer.id.expiration.ms": (
        "2200",
        lambda broker: replica_of(broker).log.producers.expiration_ms,
        2200,
    ),
}

# These count from the next start; docs/compatibility.md says so.
AT_START: dict[str, tuple[str, Probe, Any]] = {
    "num.network.threads": ("2", lambda broker: len(broker.network.processors), 2),
    "num.recovery.threads.per.data.dir": ("1", lambda broker: broker.logs.recovery_threads, 1),
}

# Two settings of one kind: which one acts is up to `compression.type`.
OF_OTHER_CODECS = {"compression.gzip.level", "compression.lz4.level"}

# It tunes what works differently here.
NEVER_ACTING = {"group.coordinator.cached.buffer.max.bytes"}


async def alter(floodmark: BrokerThread, settings: Mapping[str, str | None]) -> ResourceOutcome:
    changes = [
        ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for name, value in settings.items()
    ]
    async with Admin(floodmark.bootstrap_servers) as admin:
        (outcome,) = await admin.incremental_alter_configs({ConfigResource.broker(None): changes})
    return outcome


def seen(floodmark: BrokerThread, table: Mapping[str, tuple[str, Probe, Any]]) -> dict[str, Any]:
    broker = floodmark.broker
    wait_for(lambda: broker.cleaning.cleaner is not None)

    async def probe_all() -> dict[str, Any]:
        return {name: probe(broker) for name, (_, probe, _) in table.items()}

    return floodmark.call(probe_all())


async def test_a_dynamic_setting_acts_at_once_after_a_restart_and_until_it_is_removed(
    tmp_path: Path,
) -> None:
    wanted = {name: expected for name, (_, _, expected) in ACTING.items()}
    at_start = {name: expected for name, (_, _, expected) in AT_START.items()}
    with BrokerThread(tmp_path) as floodmark:
        floodmark.create_topic("t")
        before = seen(floodmark, ACTING)
        before_at_start = seen(floodmark, AT_START)
        assert all(before[name] != value for name, value in wanted.items())
        values = {name: value for name, (value, _, _) in (ACTING | AT_START).items()}
        assert (await alter(floodmark, values)).error is None
        assert seen(floodmark, ACTING) == wanted
    with BrokerThread(tmp_path) as floodmark:
        assert seen(floodmark, ACTING | AT_START) == wanted | at_start
        assert (await alter(floodmark, dict.fromkeys(ACTING | AT_START))).error is None
        assert seen(floodmark, ACTING) == before
    with BrokerThread(tmp_path) as floodmark:
        assert seen(floodmark, ACTING | AT_START) == before | before_at_start


def test_the_table_names_every_dynamic_setting_that_acts() -> None:
    def acts(name: str) -> bool:
        if name.startswith(("ssl.", "sasl.")):
            return False  # Only for listeners with TLS or SASL: see test_secure_listeners.py.
        return not any(
            name.startswith(entry[:-1]) if entry.endswith("*") else name == entry
            for entry in WITHOUT_EFFECT
        )

    dynamic = {s.name for s in BROKER_SETTINGS_BY_NAME.values() if s.is_dynamic and acts(s.name)}
    listed = {name for name in ACTING | AT_START if not name.startswith("listener.")}
    assert dynamic - OF_OTHER_CODECS - NEVER_ACTING == listed


@pytest.mark.parametrize(
    "name",
    ["max.connections", "listener.name.plaintext.max.connections", "max.connection.creation.rate"],
)
async def test_nobody_can_lock_everybody_out(floodmark: BrokerThread, name: str) -> None:
    outcome = await alter(floodmark, {name: "0"})
    assert outcome.error is not None and "INVALID_REQUEST" in str(outcome.error)
    assert f"Invalid {name.removeprefix('listener.name.plaintext.')} 0" in str(outcome.error)
    assert (await alter(floodmark, {name: "1000"})).error is None


async def test_a_listener_that_is_full_does_not_close_the_others(tmp_path: Path) -> None:
    settings = {
        "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
        "inter.broker.listener.name": "ONE",
        "listener.name.two.max.connections": "1",
    }
    with BrokerThread(tmp_path, settings) as floodmark:
        limits = floodmark.broker.network.limits
        async with Admin(f"127.0.0.1:{floodmark.broker.network.port('TWO')}") as admin:
            await admin.list_topics()
            assert limits.is_full("TWO") and not limits.is_full("ONE")
            async with Admin(floodmark.bootstrap_servers) as other:
                await other.list_topics()
