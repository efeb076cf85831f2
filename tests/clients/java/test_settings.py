"""Our settings beside those that Apache Kafka 4.3.0 itself defines: types, defaults and bounds."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from floodmark.config import (
    BROKER_SETTINGS_BY_NAME,
    GROUP_SETTINGS_BY_NAME,
    TOPIC_SETTINGS_BY_NAME,
    Setting,
)
from floodmark.config.values import format_value
from kit.jars import KAFKA_4, kafka_jars
from kit.java_program import run_java
from kit.tools import require_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

_OURS: Mapping[str, Mapping[str, Setting]] = {
    "broker": BROKER_SETTINGS_BY_NAME,
    "topic": TOPIC_SETTINGS_BY_NAME,
    "group": GROUP_SETTINGS_BY_NAME,
}
# What differs on purpose, as docs/compatibility.md says.
_OTHER_DEFAULTS = {
    "listeners",
    "log.dir",
    "replica.lag.time.max.ms",
    "group.coordinator.rebalance.protocols",
    "node.id",
    # Kafka cannot start without them.
    "controller.listener.names",
    "process.roles",
}
_OTHER_BOUNDS = {
    "group.coordinator.rebalance.protocols",
    "group.consumer.assignors",
    # The same bounds, which Kafka words in another way.
    "group.consumer.migration.policy",
    "authorizer.class.name",
    # Kafka takes 0 and fails when something moves.
    "num.replica.alter.log.dirs.threads",
    # Not asked, so whatever a file says of them will do.
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
}


def test_settings_have_kafkas_types_defaults_and_bounds() -> None:
    require_tool("java", "javac", "mvn")
    program = Path(__file__).with_name("SettingsOf.java")
    compared = set()
    differences = []
    for line in run_java(program, kafka_jars(KAFKA_4)).splitlines():
        kind, name, value_type, default, bounds, is_internal = line.split("\t")
        ours = _OURS[kind].get(name)
        if ours is None:
            continue
        compared.add((kind, name))
        found = [ours.type.name, str(ours.is_internal).lower()]
        expected = [value_type, is_internal]
        if name not in _OTHER_DEFAULTS:
            value = format_value(ours.default)
            found.append("null" if value is None else value)
            expected.append(default)
        if name not in _OTHER_BOUNDS:
            found.append("" if ours.validator is None else ours.validator.describe())
            expected.append(bounds)
        if found != expected:
            differences.append((kind, name, found, expected))
    assert not differences
    # The others are ours, or of the days of ZooKeeper.
    assert len(compared) > 200
