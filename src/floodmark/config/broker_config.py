"""One broker's settings with their values: from the start and from later dynamic changes.

Built by `cli` (from `loaders.py`) and by `broker`, and read everywhere. Immutable: a dynamic change
creates a new one through `with_dynamic`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from floodmark.config.checks import check_together
from floodmark.config.errors import ConfigError
from floodmark.config.listeners import Listener, Listeners, resolve_listeners
from floodmark.config.setting import Setting
from floodmark.config.settings import BROKER_SETTINGS_BY_NAME, TOPIC_SETTINGS_BY_NAME
from floodmark.config.values import Value

LISTENER_PREFIX = re.compile(r"listener\.name\.([^.]*)\.(.*)")
# With SASL, the mechanism is between listener and setting:
# listener.name.l.plain.sasl.jaas.config
_MECHANISM_PREFIXES = ("plain.", "scram-sha-256.", "scram-sha-512.", "oauthbearer.", "gssapi.")
_NEVER_ZERO = ("max.connections", "max.connection.creation.rate")
T = TypeVar("T")

_NOTHING: Mapping[str, str] = MappingProxyType({})


def base_name(name: str) -> str:
    """`listener.name.internal.max.connections` sets `max.connections` for one listener."""
    match = LISTENER_PREFIX.fullmatch(name)
    if match is None:
        return name
    for prefix in _MECHANISM_PREFIXES:
        if match[2].startswith(prefix):
            return match[2][len(prefix) :]
    return match[2]


def parse_dynamic(name: str, setting: Setting, text: str) -> Value:
    """As in Kafka, a running broker cannot be told to accept no connections.

    There would be none left to undo it.
    """
    value = setting.parse(text)
    if setting.name in _NEVER_ZERO and value == 0:
        raise ConfigError(f"Invalid {setting.name} {value}", name=name)
    return value


class BrokerConfig:
    """Typed access by Kafka's names.

    Precedence: dynamic per broker, dynamic default, static, default.
    """

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] = _NOTHING,
        dynamic_broker: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.static: Mapping[str, str] = MappingProxyType(dict(static))
        self.dynamic_default: Mapping[str, str] = MappingProxyType(dict(dynamic_default))
        self.dynamic_broker: Mapping[str, str] = MappingProxyType(dict(dynamic_broker))
        self.unknown_names = tuple(
            sorted(name for name in static if base_name(name) not in BROKER_SETTINGS_BY_NAME)
        )
        self.ignored_dynamic: tuple[str, ...] = ()
        self._values = self._parse_all()
        self.topic_defaults: Mapping[str, Value] = MappingProxyType(self._topic_defaults())
        self._listeners = self._resolve_listeners()
        check_together(self)

    @classmethod
    def load(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """From the properties a broker starts with. Unknown names go to `unknown_names`."""
        return cls(properties)

    def with_static(self, overrides: Mapping[str, str]) -> BrokerConfig:
        """A copy with other start properties, such as the ports that the system chose."""
        return BrokerConfig({**self.static, **overrides}, self.dynamic_default, self.dynamic_broker)

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """A copy with other dynamic values, for the cluster default and this broker."""
        return BrokerConfig(self.static, default, broker)

    # -- values -------------------------------------------------------------------------------

    def get(self, name: str) -> Value:
        return self._values[name]

    def get_int(self, name: str) -> int:
        return _expect(name, self._values[name], int)

    def get_bool(self, name: str) -> bool:
        return _expect(name, self._values[name], bool)

    def get_float(self, name: str) -> float:
        return float(_expect(name, self._values[name], (int, float)))

    def get_str(self, name: str) -> str:
        return _expect(name, self._values[name], str)

    def get_optional_str(self, name: str) -> str | None:
        return None if self._values[name] is None else self.get_str(name)

    def get_list(self, name: str) -> tuple[str, ...]:
        return _expect(name, self._values[name], tuple)

    def for_listener(self, listener: str, name: str) -> Value:
        """The value of `listener.name.{listener}.{name}`, or of `name` if that is not set."""
        prefixed = f"listener.name.{listener.lower()}.{name}"
        return self._values[prefixed if prefixed in self._values else name]

    def for_mechanism(self, listener: str, mechanism: str, name: str) -> Value:
        """`listener.name.{listener}.{mechanism}.{name}`, or the listener's or the general value."""
        exact = f"listener.name.{listener.lower()}.{mechanism.lower()}.{name}"
        return self._values[exact] if exact in self._values else self.for_listener(listener, name)

    def jaas_of(self, listener: str, mechanism: str) -> str | None:
        """The JAAS config for one mechanism. As in Kafka, it needs both prefixes."""
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        text = self._values.get(name)
        return text if isinstance(text, str) else None

    def sasl_mechanisms(self, listener: str) -> tuple[str, ...]:
        return _expect(
            "sasl.enabled.mechanisms", self.for_listener(listener, "sasl.enabled.mechanisms"), tuple
        )

    def is_set(self, name: str) -> bool:
        """Whether it was given a value."""
        return any(name in layer for layer in self.layers)

    @property
    def layers(self) -> tuple[Mapping[str, str], ...]:
        """The sources of values, strongest first."""
        return self.dynamic_broker, self.dynamic_default, self.static

    # -- what several settings say together -----------------------------------------------------

    @property
    def node_id(self) -> int:
        if not self.is_set("node.id") and self.get_int("broker.id") >= 0:
            return self.get_int("broker.id")
        return self.get_int("node.id")

    @property
    def node_id_is_set(self) -> bool:
        return self.is_set("node.id") or self.get_int("broker.id") >= 0

    @property
    def is_clustered(self) -> bool:
        """Whether other brokers may join: a lone broker keeps its metadata to itself."""
        return bool(
            self.get_str("floodmark.cluster.dir") or self.get_optional_str("zookeeper.connect")
        )

    @property
    def log_dirs(self) -> tuple[str, ...]:
        dirs = self._values["log.dirs"]
        return dirs if isinstance(dirs, tuple) and dirs else self.get_list("log.dir")

    @property
    def listeners(self) -> tuple[Listener, ...]:
        return self._listeners.bound

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """As configured: a host may be empty and a port 0 until the sockets are bound."""
        return self._listeners.advertised

    def max_connections_of(self, listener: str) -> int:
        return _expect("max.connections", self.for_listener(listener, "max.connections"), int)

    @property
    def ignored_listeners(self) -> tuple[str, ...]:
        """The listeners of a KRaft controller (`controller.listener.names`), as configured."""
        return self._listeners.ignored

    @property
    def inter_broker_listener_name(self) -> str:
        return self._listeners.inter_broker_name

    @property
    def inter_broker_protocol(self) -> str:
        """The security protocol of the inter-broker listener."""
        name = self._listeners.inter_broker_name
        return next(x.security_protocol for x in self._listeners.advertised if x.name == name)

    # -- building -------------------------------------------------------------------------------

    def _parse_all(self) -> dict[str, Value]:
        values: dict[str, Value] = {s.name: s.default for s in BROKER_SETTINGS_BY_NAME.values()}
        for name, text in self.static.items():
            setting = BROKER_SETTINGS_BY_NAME.get(base_name(name))
            if setting is not None:
                values[name] = setting.parse(text)
        self._take_dynamic(values, self.dynamic_default)
        self._take_dynamic(values, self.dynamic_broker)
        return values

    def _take_dynamic(self, values: dict[str, Value], layer: Mapping[str, str]) -> None:
        """A stored value that this version does not accept must not prevent the start."""
        for name, text in layer.items():
            setting: Setting | None = BROKER_SETTINGS_BY_NAME.get(base_name(name))
            try:
                if setting is None or not setting.is_dynamic:
                    raise ConfigError(f"Not a dynamic broker config name: {name}", name=name)
                values[name] = parse_dynamic(name, setting, text)
            except ConfigError:
                self.ignored_dynamic = (*self.ignored_dynamic, name)

    def _topic_defaults(self) -> dict[str, Value]:
        defaults: dict[str, Value] = {}
        for setting in TOPIC_SETTINGS_BY_NAME.values():
            defaults[setting.name] = setting.default
            for synonym in setting.synonyms:
                value = self._values[synonym.name]
                if value is not None:
                    defaults[setting.name] = _in_ms(value, synonym.to_ms)
                    break
        return defaults

    def _resolve_listeners(self) -> Listeners:
        advertised = self._values["advertised.listeners"]
        return resolve_listeners(
            self.get_list("listeners"),
            advertised if isinstance(advertised, tuple) else None,
            self.get_str("listener.security.protocol.map"),
            self.get_optional_str("inter.broker.listener.name"),
            self.get_str("security.inter.broker.protocol"),
            self.get_list("controller.listener.names"),
        )


def _in_ms(value: Value, factor: int) -> Value:
    if factor == 1 or not isinstance(value, int):
        return value
    # A negative number of hours means "forever", which is -1 in milliseconds.
    return -1 if value < 0 else value * factor


def _expect(name: str, value: Value, kind: type[T] | tuple[type[T], ...]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}, which is not of the expected type")
    return value
