"""Which broker settings may change while it runs; the controller asks before it stores one."""

from __future__ import annotations

from collections.abc import Mapping

from floodmark.config.broker_config import LISTENER_PREFIX, base_name
from floodmark.config.errors import ConfigError
from floodmark.config.setting import PER_BROKER
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME

# Of the settings of a listener, these may also be set for all brokers at once.
_CLUSTER_LEVEL_OF_LISTENERS = (
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
)


def validate_dynamic_overrides(overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise ConfigError in Kafka's words. `overrides` is the whole new set of one broker, or of the
    cluster default when `per_broker` is false. Names unknown to us are stored and ignored, as Kafka
    does.
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
            setting.parse(overrides[name])
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
