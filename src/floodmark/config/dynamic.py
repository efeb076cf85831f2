"""Defines which broker settings may change at runtime. The controller checks before storing one."""

from __future__ import annotations

from collections.abc import Mapping

from floodmark.config.broker_config import (
    LISTENER_PREFIX,
    BrokerConfig,
    base_name,
    parse_dynamic,
)
from floodmark.config.errors import ConfigError
from floodmark.config.setting import PER_BROKER
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME

# These listener settings may also be set for all brokers at once.
_CLUSTER_LEVEL_OF_LISTENERS = (
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
)

_THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def validate_thread_counts(current: BrokerConfig, changed: BrokerConfig) -> None:
    """Raises ConfigError if a change more than halves or doubles a number of threads.

    Kafka has the same rule, so that a typo does not cripple a running broker.
    """
    for name in _THREAD_COUNTS:
        before, after = current.get_int(name), changed.get_int(name)
        if after < before // 2:
            why = f"be at least half the current value {before}"
        elif after > before * 2:
            why = f"not be greater than double the current value {before}"
        else:
            continue
        raise ConfigError(
            f"Dynamic thread count update validation failed for {name}={after}, value should {why}",
            name=name,
        )


def validate_dynamic_overrides(overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises ConfigError with Kafka's wording.

    `overrides` is the complete new set of one broker, or of the cluster default if `per_broker` is
    false. As in Kafka, unknown names are stored and ignored.
    """
    known = {name: BROKER_SETTINGS_BY_NAME.get(base_name(name)) for name in overrides}
    fixed = [name for name, setting in known.items() if setting and not setting.is_dynamic]
    if fixed:
        raise _refuse("Cannot update these configs dynamically", fixed)
    bare = [name for name in overrides if name.startswith("ssl.") and known[name]]
    if bare:
        raise _refuse(
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix",
            bare,
        )
    for name, setting in known.items():
        if setting is not None:
            parse_dynamic(name, setting, overrides[name])
    if not per_broker:
        _check_cluster_level(overrides)


def _check_cluster_level(overrides: Mapping[str, str]) -> None:
    only_per_broker = []
    for name in overrides:
        setting = BROKER_SETTINGS_BY_NAME.get(name)
        prefixed = LISTENER_PREFIX.fullmatch(name)
        if (setting is not None and setting.update_mode is PER_BROKER) or (
            prefixed is not None and prefixed[2] not in _CLUSTER_LEVEL_OF_LISTENERS
        ):
            only_per_broker.append(name)
    if only_per_broker:
        raise _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            only_per_broker,
        )


def _refuse(why: str, names: list[str]) -> ConfigError:
    return ConfigError(f"{why}: [{', '.join(names)}]", name=names[0])
