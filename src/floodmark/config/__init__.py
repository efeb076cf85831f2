"""Settings: their definitions, meaning and values. Pure: no IO, no clock.

All code reads settings through this package; `settings/` holds the definitions by area.
"""

from __future__ import annotations

from floodmark.config.broker_config import BrokerConfig
from floodmark.config.checks import connection_limits
from floodmark.config.describe import (
    ConfigEntry,
    ConfigSynonym,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from floodmark.config.dynamic import validate_dynamic_overrides, validate_thread_counts
from floodmark.config.errors import ConfigError
from floodmark.config.group_config import GROUP_SETTINGS_BY_NAME, validate_group_overrides
from floodmark.config.listeners import Listener
from floodmark.config.loaders import (
    merge_sources,
    parse_environment,
    parse_pairs,
    parse_properties,
    parse_toml,
)
from floodmark.config.setting import Setting, UpdateMode
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME, TOPIC_SETTINGS_BY_NAME
from floodmark.config.topic_config import TopicConfig, topic_config, validate_topic_overrides
from floodmark.config.values import Value, ValueType

__all__ = [
    "BROKER_SETTINGS_BY_NAME",
    "GROUP_SETTINGS_BY_NAME",
    "TOPIC_SETTINGS_BY_NAME",
    "BrokerConfig",
    "ConfigEntry",
    "ConfigError",
    "ConfigSynonym",
    "Listener",
    "Setting",
    "TopicConfig",
    "UpdateMode",
    "Value",
    "ValueType",
    "connection_limits",
    "describe_broker",
    "describe_cluster_default",
    "describe_group",
    "describe_topic",
    "merge_sources",
    "parse_environment",
    "parse_pairs",
    "parse_properties",
    "parse_toml",
    "topic_config",
    "validate_dynamic_overrides",
    "validate_group_overrides",
    "validate_thread_counts",
    "validate_topic_overrides",
]
