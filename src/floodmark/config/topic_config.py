"""The settings of one topic: its own overrides over the broker's defaults.

The broker calls `topic_config` whenever a topic or a broker default changes; storage reads the
result as a mapping. `validate_topic_overrides` is the controller's check before it accepts a
change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.errors import ConfigError
from floodmark.config.settings import TOPIC_SETTINGS_BY_NAME
from floodmark.config.values import Value


class TopicConfig(Mapping[str, Value]):
    """Effective typed values by Kafka's names. `overrides` holds the topic's own texts."""

    __slots__ = ("_values", "overrides")

    def __init__(self, values: Mapping[str, Value], overrides: Mapping[str, str]) -> None:
        self._values = values
        self.overrides = overrides

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_int(self, name: str) -> int:
        value = self._values[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}, not a whole number")
        return value

    def get_bool(self, name: str) -> bool:
        return self._values[name] is True

    def get_float(self, name: str) -> float:
        value = self._values[name]
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} is {value!r}, not a number")
        return float(value)

    def get_str(self, name: str) -> str:
        return str(self._values[name])

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        if not isinstance(value, tuple):
            raise TypeError(f"{name} is {value!r}, not a list")
        return value


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """The effective settings of a topic.

    Unreadable overrides fall back to the default, so that a store written by a newer version still
    opens; `validate_topic_overrides` keeps them out.
    """
    if not overrides:
        return TopicConfig(broker.topic_defaults, MappingProxyType({}))
    values = dict(broker.topic_defaults)
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS_BY_NAME.get(name)
        if setting is None:
            continue
        try:
            values[name] = setting.parse(text)
        except ConfigError:
            continue
    return TopicConfig(MappingProxyType(values), MappingProxyType(dict(overrides)))


def validate_topic_overrides(
    overrides: Mapping[str, str], defaults: Mapping[str, Value] = MappingProxyType({})
) -> None:
    """Raises ConfigError with Kafka's wording for an unknown name, a bad value or a conflict.

    `defaults` are the broker's topic defaults, used to check for conflicts.
    """
    if not overrides:
        return
    for name in overrides:
        if name not in TOPIC_SETTINGS_BY_NAME:
            raise ConfigError(f"Unknown topic config name: {name}", name=name)
    values: dict[str, Value] = {s.name: s.default for s in TOPIC_SETTINGS_BY_NAME.values()}
    values.update(defaults)
    for name, text in overrides.items():
        values[name] = TOPIC_SETTINGS_BY_NAME[name].parse(text)
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage.",
            name="remote.storage.enable",
        )
    min_lag, max_lag = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(min_lag, int) and isinstance(max_lag, int) and min_lag > max_lag:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({min_lag}) > "
            f"max.compaction.lag.ms ({max_lag})",
            name="min.compaction.lag.ms",
        )
