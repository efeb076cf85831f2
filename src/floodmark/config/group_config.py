"""The settings of one consumer group (KIP-848): its own overrides over the broker's defaults.

`validate_group_overrides` is the controller's check before it accepts a change. describe.py shows
them, and the group coordinator reads them from the metadata image.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.setting import CLUSTER_WIDE, Setting
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


def broker_setting(name: str) -> str:
    """The broker setting that applies while the group has no value of its own."""
    return f"group.{name}"


GROUP_SETTINGS_BY_NAME: Mapping[str, Setting] = MappingProxyType(
    {
        name: dataclasses.replace(
            BROKER_SETTINGS_BY_NAME[broker_setting(name)], name=name, update_mode=CLUSTER_WIDE
        )
        for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)
    }
)


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises ConfigError with Kafka's wording for an unknown name or a conflicting value.

    A value may conflict with the broker's limits or the group's other values.
    """
    values: dict[str, int] = {}
    for name in overrides:
        if name not in GROUP_SETTINGS_BY_NAME:
            raise ConfigError(f"Unknown group config name: {name}", name=name)
    for name, setting in GROUP_SETTINGS_BY_NAME.items():
        values[name] = broker.get_int(broker_setting(name))
        if name in overrides:
            parsed = setting.parse(overrides[name])
            assert isinstance(parsed, int)
            values[name] = parsed
            _check_bounds(name, parsed, broker)
    if values[SESSION_TIMEOUT] <= values[HEARTBEAT_INTERVAL]:
        raise ConfigError(
            f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}", name=SESSION_TIMEOUT
        )


def _check_bounds(name: str, value: int, broker: BrokerConfig) -> None:
    lowest = broker_setting(name.replace("consumer.", "consumer.min.", 1))
    highest = broker_setting(name.replace("consumer.", "consumer.max.", 1))
    if value < broker.get_int(lowest):
        raise ConfigError(f"{name} must be greater than or equal to {lowest}", name=name)
    if value > broker.get_int(highest):
        raise ConfigError(f"{name} must be less than or equal to {highest}", name=name)
