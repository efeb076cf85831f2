"""Listeners: names, addresses, protocols, advertised addresses. Read by broker/ and network/."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from floodmark.config.errors import ConfigError
from floodmark.config.settings.network import DEFAULT_LISTENERS, SECURITY_PROTOCOLS

_LISTENER = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
MAX_PORT = 65535
WILDCARD_HOSTS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Listener:
    """An address with a name. An empty host binds all addresses; port 0 lets the system choose."""

    name: str
    security_protocol: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


@dataclass(frozen=True, slots=True)
class Listeners:
    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker_name: str
    ignored: tuple[str, ...] = ()
    """Listeners of a KRaft controller, as configured. This broker does not open them."""


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parses `INTERNAL:PLAINTEXT,EXTERNAL:SSL`."""
    name_of_setting = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for pair in filter(None, (item.strip() for item in text.split(","))):
        name, colon, protocol = pair.rpartition(":")
        if not colon:
            raise ConfigError.bad_value(
                name_of_setting, text, f"'{pair}' is not of the form NAME:PROTOCOL"
            )
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid security protocol `{protocol}` defined in {name_of_setting}",
                name=name_of_setting,
                hint=f"Use one of {', '.join(SECURITY_PROTOCOLS)}",
            )
        if name in protocols:
            raise ConfigError.bad_value(name_of_setting, text, f"{name} is mapped twice")
        protocols[name] = protocol
    return protocols


def parse_listener(setting: str, text: str, protocols: Mapping[str, str]) -> Listener:
    """Parses `NAME://host:port`. IPv6 hosts need brackets."""
    match = _LISTENER.fullmatch(text)
    if match is None or not 0 <= int(match[3]) <= MAX_PORT:
        raise ConfigError.bad_value(
            setting,
            text,
            "it is not of the form NAME://host:port",
            "For example PLAINTEXT://127.0.0.1:9092",
        )
    name = match[1].upper()
    if name not in protocols:
        raise ConfigError(
            f"No security protocol defined for listener {name}",
            name=setting,
            hint=f"Add {name}:PLAINTEXT (or another protocol) to listener.security.protocol.map",
        )
    return Listener(name, protocols[name], match[2], int(match[3]))


def resolve_listeners(
    listeners: tuple[str, ...],
    advertised: tuple[str, ...] | None,
    protocol_map: str,
    inter_broker_name: str | None,
    inter_broker_protocol: str,
    controller_names: tuple[str, ...] = (),
) -> Listeners:
    """Combines the six settings and checks that they are consistent.

    Omits listeners for a KRaft controller: as client ports they would be security holes.
    """
    protocols = parse_protocol_map(protocol_map)
    ignored = tuple(text for text in listeners if _is_named(text, controller_names))
    # Like Kafka, opens the default listener if only the controller's is configured.
    listeners = tuple(text for text in listeners if text not in ignored) or DEFAULT_LISTENERS
    if advertised:
        advertised = tuple(text for text in advertised if not _is_named(text, controller_names))
    bound = tuple(parse_listener("listeners", text, protocols) for text in listeners)
    _check_distinct(bound, "listeners", check_ports=True)
    told = bound
    if advertised:
        told = tuple(parse_listener("advertised.listeners", text, protocols) for text in advertised)
        _check_advertised(told, bound)
    between_brokers = _inter_broker_name(inter_broker_name, inter_broker_protocol, told)
    return Listeners(bound, told, between_brokers, ignored)


def _is_named(text: str, names: tuple[str, ...]) -> bool:
    return text.partition("://")[0].upper() in {name.upper() for name in names}


def _check_distinct(listeners: tuple[Listener, ...], setting: str, *, check_ports: bool) -> None:
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(
            f"Each listener must have a different name, {setting}: {', '.join(names)}", name=setting
        )
    ports = [(listener.host, listener.port) for listener in listeners if listener.port != 0]
    if check_ports and len(set(ports)) != len(ports):
        raise ConfigError(f"Each listener must have a different port, {setting}", name=setting)


def _check_advertised(told: tuple[Listener, ...], bound: tuple[Listener, ...]) -> None:
    setting = "advertised.listeners"
    _check_distinct(told, setting, check_ports=False)
    bound_names = {listener.name for listener in bound}
    for listener in told:
        if listener.name not in bound_names:
            raise ConfigError(
                f"{setting} contains the name {listener.name}, which is not in listeners",
                name=setting,
                hint=f"Add {listener.name}://host:port to listeners",
            )
        if listener.host == "0.0.0.0":
            raise ConfigError(
                f"{setting} cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP "
                "address.",
                name=setting,
            )


def _inter_broker_name(configured: str | None, protocol: str, told: tuple[Listener, ...]) -> str:
    names = [listener.name for listener in told]
    if configured is not None:
        if configured.upper() not in names:
            raise ConfigError(
                f"inter.broker.listener.name {configured.upper()} is not one of the advertised "
                f"listeners ({', '.join(names)})",
                name="inter.broker.listener.name",
                hint="Name one of them, or add it to listeners",
            )
        return configured.upper()
    if protocol in names:
        return protocol
    if len(names) == 1:
        # Kafka refuses this, but with one listener there is no ambiguity.
        return names[0]
    raise ConfigError(
        f"no listener is named {protocol}, so it is unclear which listener brokers should use "
        "to reach each other",
        name="inter.broker.listener.name",
        hint=f"Set inter.broker.listener.name to one of {', '.join(names)}",
    )
