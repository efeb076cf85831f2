"""Settings for DescribeConfigs: value, source, and synonyms.

Called by apis/handlers/describe_configs.py. The numbers of ConfigSource and ValueType are Kafka's.
The order of synonyms follows Kafka 4.3, because tools print them. So do the lists that stay empty
(retention.ms if only log.retention.hours is set).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from floodmark.config.broker_config import BrokerConfig, base_name
from floodmark.config.group_config import GROUP_SETTINGS_BY_NAME, broker_setting
from floodmark.config.setting import Setting
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME, TOPIC_SETTINGS_BY_NAME
from floodmark.config.topic_config import topic_config
from floodmark.config.values import ValueType, format_value
from floodmark.wire.numbers import ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: ValueType
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]


# Settings with the same meaning in other units, strongest first.
_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH_FAMILY = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """All settings of a topic, or those in `names`."""
    values = topic_config(broker, overrides)
    entries = []
    for setting in TOPIC_SETTINGS_BY_NAME.values():
        if names is not None and setting.name not in names:
            continue
        value = format_value(values[setting.name])
        synonyms: list[ConfigSynonym] = []
        if setting.name in overrides:
            synonyms.append(ConfigSynonym(setting.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        if setting.synonyms:
            synonyms += _broker_synonyms(broker, setting.synonyms[0].name, is_sensitive=False)
        entries.append(_override_entry(setting, value, synonyms))
    return entries


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """All settings of a consumer group, or those in `names`. The group need not exist."""
    entries = []
    for setting in GROUP_SETTINGS_BY_NAME.values():
        if names is not None and setting.name not in names:
            continue
        fallback = broker_setting(setting.name)
        value = overrides.get(setting.name, format_value(broker.get(fallback)))
        synonyms = _broker_synonyms(broker, fallback, is_sensitive=False)
        if setting.name in overrides:
            own = ConfigSynonym(setting.name, value, ConfigSource.DYNAMIC_GROUP_CONFIG)
            synonyms.insert(0, own)
        entries.append(_override_entry(setting, value, synonyms))
    return entries


def _override_entry(
    setting: Setting, value: str | None, synonyms: Sequence[ConfigSynonym]
) -> ConfigEntry:
    """A setting of one topic or group that falls back to the broker's."""
    return ConfigEntry(
        name=setting.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=False,
        read_only=False,
        type=setting.type,
        documentation=setting.documentation,
        synonyms=tuple(synonyms),
    )


def describe_broker(broker: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """All settings of a broker, including unknown ones, whose values are not shown."""
    listed = {s.name: None for s in BROKER_SETTINGS_BY_NAME.values() if not s.is_internal}
    given = {name: None for layer in broker.layers for name in layer}
    return [
        _broker_entry(broker, name) for name in listed | given if names is None or name in names
    ]


def describe_cluster_default(
    broker: BrokerConfig, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """Only the settings for all brokers."""
    only = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        _broker_entry(broker, name, only=only)
        for name in broker.dynamic_default
        if names is None or name in names
    ]


def _broker_entry(broker: BrokerConfig, name: str, only: ConfigSource | None = None) -> ConfigEntry:
    setting = BROKER_SETTINGS_BY_NAME.get(base_name(name))
    # An unknown setting may be a secret, so it is treated as one.
    is_sensitive = setting is None or setting.is_sensitive
    synonyms = _broker_synonyms(broker, name, is_sensitive=is_sensitive)
    if only is not None:
        synonyms = [synonym for synonym in synonyms if synonym.source is only]
    return ConfigEntry(
        name=name,
        value=_broker_value(broker, name, only) if not is_sensitive else None,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=is_sensitive,
        read_only=not (setting is not None and setting.is_dynamic),
        type=setting.type if setting is not None else ValueType.UNKNOWN,
        documentation=setting.documentation if setting is not None else None,
        synonyms=tuple(synonyms),
    )


def _broker_value(broker: BrokerConfig, name: str, only: ConfigSource | None) -> str | None:
    if only is not None:
        return broker.dynamic_default[name]
    if name in ("node.id", "broker.id"):
        return str(broker.node_id)
    return format_value(broker.get(name))


def _broker_synonyms(broker: BrokerConfig, name: str, *, is_sensitive: bool) -> list[ConfigSynonym]:
    family = _family(name)
    found: list[ConfigSynonym] = []
    layers = (
        (broker.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (broker.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for layer, source in layers:
        for member in family:
            if member in layer:
                found.append(ConfigSynonym(member, None if is_sensitive else layer[member], source))
    for member in family:
        default = _default_text(BROKER_SETTINGS_BY_NAME.get(member))
        if default is not None:
            shown = None if is_sensitive else default
            found.append(ConfigSynonym(member, shown, ConfigSource.DEFAULT_CONFIG))
    # Kafka drops synonyms before the first one with the requested name.
    for position, synonym in enumerate(found):
        if synonym.name == name:
            return found[position:]
    return []


def _default_text(setting: Setting | None) -> str | None:
    return None if setting is None else format_value(setting.default)


def _family(name: str) -> tuple[str, ...]:
    if name == _FLUSH_FAMILY[0]:
        return _FLUSH_FAMILY
    for family in _FAMILIES:
        if name in family:
            return family
    plain = base_name(name)
    return (name,) if plain == name else (name, plain)
