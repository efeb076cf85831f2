"""PURE: turns settings into provider URLs, with the rules and order of Dubbo's ServiceConfig.

External input (time, randomness, the environment, the local address) is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from floodmark.service.errors import ConfigError
from floodmark.service.interface import Interface, Method
from floodmark.service.settings import (
    APPLICATION,
    ARGUMENT,
    METHOD,
    METRICS,
    MODULE,
    MONITOR,
    PROTOCOL,
    PROVIDER,
    REGISTRY,
    SERVICE,
    Settings,
    Values,
    number_of,
    text_of,
)
from floodmark.service.url import ANY_HOST, ANY_VALUE, URL, encode, is_set

PROTOCOL_VERSION = "2.0.2"
RELEASE = "2.7.23"
"""The Dubbo release whose behaviour we match. Consumers choose features by it."""

DEFAULT_PORTS = {"dubbo": 20880, "tri": 50051, "injvm": 0}

_NOT_AVAILABLE = "n/a"
_GENERIC_KINDS = ("true", "nativejava", "bean", "protobuf-json", "gson", "raw.return")
_DEFAULT = ("true", "default")
_UNREGISTERED = frozenset(
    {
        "monitor",
        "bind.ip",
        "bind.port",
        "qos.enable",
        "qos.host",
        "qos.port",
        "qos.accept.foreign.ip",
        "validation",
        "interfaces",
        "onconnect",
        "ondisconnect",
    }
)
_SIMPLIFIED = (
    "application",
    "codec",
    "exchanger",
    "serialization",
    "cluster",
    "connections",
    "deprecated",
    "group",
    "loadbalance",
    "mock",
    "path",
    "timeout",
    "token",
    "version",
    "warmup",
    "weight",
    "timestamp",
    "dubbo",
    "release",
    "dubbo.tag",
)


@dataclass(frozen=True)
class Surroundings:
    """A URL's inputs besides its settings."""

    now_ms: int
    pid: int
    environment: Mapping[str, str]
    local_host: str
    new_token: Callable[[], str]
    free_port: Callable[[int], int]


def provider_url(
    settings: Settings, interface: Interface, protocol: Values, around: Surroundings
) -> URL:
    """The URL of a service under one protocol, `bind.ip` and `bind.port` included."""
    name = text_of(protocol.get("name")) or "dubbo"
    parameters = {"side": "provider", **_runtime(around)}
    METRICS.append_to(parameters, settings.metrics)
    APPLICATION.append_to(parameters, settings.application)
    MODULE.append_to(parameters, settings.module)
    PROVIDER.append_to(parameters, settings.provider)
    PROTOCOL.append_to(parameters, protocol)
    SERVICE.append_to(parameters, _service_values(settings, interface))
    if settings.metadata_report:
        parameters.setdefault("metadata-type", "remote")
    for method in settings.methods:
        _append_method(parameters, method, interface)
    _append_methods(parameters, settings, interface)
    _append_token(parameters, settings, around)
    host = _host(parameters, name, settings, protocol, around)
    port = _port(parameters, name, settings, protocol, around)
    return URL(name, host, port, _path(settings, protocol, interface), parameters)


def _service_values(settings: Settings, interface: Interface) -> dict[str, Any]:
    """The service's own values, plus those it inherits from the provider by name."""
    values: dict[str, Any] = {"interface": interface.name}
    for name in ("group", "version", "export", "delay"):
        inherited = settings.inherited(name)
        if inherited is not None:
            values[name] = inherited
    values["generic"] = "false"
    values["serviceName"] = _service_name(values, settings)
    return values | dict(settings.service)


def _service_name(values: Values, settings: Settings) -> str:
    """The name that Spring would give it."""
    group, version = text_of(values.get("group")), text_of(values.get("version"))
    return f"ServiceBean:{group}/{values['interface']}" + (f":{version}" if version else "")


def _runtime(around: Surroundings) -> dict[str, str]:
    return {
        "dubbo": PROTOCOL_VERSION,
        "release": RELEASE,
        "timestamp": str(around.now_ms),
        "pid": str(around.pid),
    }


def _append_method(parameters: dict[str, str], values: Values, interface: Interface) -> None:
    name = text_of(values.get("name"))
    method = interface.methods.get(name)
    if method is None:
        known = ", ".join(interface.methods)
        raise ConfigError(f"{interface.name} has no method {name!r}; it has {known}")
    METHOD.append_to(parameters, values, name)
    if parameters.pop(f"{name}.retry", "") == "false":
        parameters[f"{name}.retries"] = "0"
    for argument in values.get("arguments", ()):
        for index in _indexes(argument, method):
            ARGUMENT.append_to(parameters, argument, f"{name}.{index}")


def _indexes(argument: Values, method: Method) -> list[int]:
    """The parameters an argument's section refers to: by index, by type, or both."""
    index = number_of("index", argument.get("index", -1))
    java = text_of(argument.get("type"))
    types = [parameter.type.erased for parameter in method.parameters]
    if not java and index == -1:
        raise ConfigError(f"an argument of {method.name} needs an index or a type")
    if index >= len(types):
        raise ConfigError(f"{method.name} has no argument {index}")
    if not java:
        return [index]
    if index == -1:
        return [number for number, found in enumerate(types) if found == java]
    if types[index] != java:
        raise ConfigError(f"argument {index} of {method.name} is {types[index]}, not {java}")
    return [index]


def _append_methods(parameters: dict[str, str], settings: Settings, interface: Interface) -> None:
    generic = text_of(settings.service.get("generic")).lower()
    if generic in _GENERIC_KINDS:
        parameters |= {"generic": generic, "methods": ANY_VALUE}
        return
    version = text_of(settings.inherited("version"))
    if version:
        parameters["revision"] = text_of(settings.service.get("revision")) or version
    parameters["methods"] = ",".join(sorted(interface.methods)) or ANY_VALUE


def _append_token(parameters: dict[str, str], settings: Settings, around: Surroundings) -> None:
    token = text_of(settings.service.get("token"))
    if not is_set(token):
        token = text_of(settings.provider.get("token"))
    if is_set(token):
        parameters["token"] = around.new_token() if token.lower() in _DEFAULT else token


def _path(settings: Settings, protocol: Values, interface: Interface) -> str:
    path = text_of(settings.service.get("path")) or interface.name
    context = text_of(protocol.get("contextpath")) or text_of(settings.provider.get("contextpath"))
    return f"{context}/{path}" if context else path


def is_local(host: str) -> bool:
    """A host by which nobody else can reach us."""
    return host in ("", "localhost", ANY_HOST) or host.startswith("127.")


def _from_environment(around: Surroundings, protocol: str, name: str) -> str:
    environment = around.environment
    return environment.get(f"{protocol.upper()}_{name}") or environment.get(name, "")


def _host(
    parameters: dict[str, str],
    name: str,
    settings: Settings,
    protocol: Values,
    around: Surroundings,
) -> str:
    to_bind = _from_environment(around, name, "DUBBO_IP_TO_BIND")
    if to_bind and is_local(to_bind):
        raise ConfigError(f"DUBBO_IP_TO_BIND is {to_bind}: consumers cannot reach that")
    any_host = False
    if not to_bind:
        to_bind = text_of(protocol.get("host")) or text_of(settings.provider.get("host"))
        if is_local(to_bind):
            any_host, to_bind = True, around.local_host
    to_register = _from_environment(around, name, "DUBBO_IP_TO_REGISTRY")
    if to_register and is_local(to_register):
        raise ConfigError(f"DUBBO_IP_TO_REGISTRY is {to_register}: consumers cannot reach that")
    parameters |= {"bind.ip": to_bind, "anyhost": text_of(any_host)}
    return to_register or to_bind


def _port(
    parameters: dict[str, str],
    name: str,
    settings: Settings,
    protocol: Values,
    around: Surroundings,
) -> int:
    port = _port_from(around, name, "DUBBO_PORT_TO_BIND")
    if not port:
        port = number_of("port", protocol.get("port"))
        port = port or number_of("port", settings.provider.get("port"))
        default = DEFAULT_PORTS.get(name, 20880)
        port = port or default
        if port < 0:
            port = around.free_port(default)
    parameters["bind.port"] = str(port)
    key = "DUBBO_PORT_TO_REGISTRY"
    if len(settings.protocols) > 1:
        key = f"{(text_of(protocol.get('id')) or 'dubbo').upper()}_{key}"
    return _port_from(around, name, key) or port


def _port_from(around: Surroundings, protocol: str, name: str) -> int:
    text = _from_environment(around, protocol, name)
    if not text:
        return 0
    if not text.isdecimal() or not 0 < int(text) <= 65535:
        raise ConfigError(f"{name} is {text!r}: not a port number")
    return int(text)


def registry_urls(settings: Settings, *, for_provider: bool) -> list[URL]:
    """The registries to use, as `registry://` URLs with `registry=<protocol>`."""
    found = []
    for values in settings.registries:
        address = text_of(values.get("address")) or ANY_HOST
        if address.lower() == _NOT_AVAILABLE:
            continue
        for part in _side_by_side(address):
            found.append(_registry_url(part, values, settings))
    needed = "register" if for_provider else "subscribe"
    return [url for url in found if url.get_bool(needed, True)]


def _side_by_side(address: str) -> list[str]:
    """Several registries are separated by `|` or `;`."""
    return [part.strip() for part in address.replace(";", "|").split("|") if part.strip()]


def _registry_url(address: str, values: Values, settings: Settings) -> URL:
    parameters: dict[str, str] = {}
    APPLICATION.append_to(parameters, settings.application)
    REGISTRY.append_to(parameters, values)
    base, mark, query = address.partition("?")
    first, *backups = base.split(",")
    if "://" not in first:
        first = f"{text_of(values.get('protocol')) or 'dubbo'}://{first}"
    url = URL.parse(f"{first}{mark}{query}")
    if backups:
        parameters["backup"] = ",".join(backups)
    url = url.with_absent(parameters)
    return url.with_parameters({"registry": url.protocol}).replaced(protocol="registry")


def with_registry(url: URL, registry: URL, settings: Settings, around: Surroundings) -> URL:
    """A provider URL for this registry, before overrides."""
    if registry.get("dynamic"):
        url = url.with_absent({"dynamic": registry.get("dynamic")})
    monitor = _monitor_url(settings, around)
    return url.with_parameters({"monitor": encode(str(monitor))}) if monitor is not None else url


def _monitor_url(settings: Settings, around: Surroundings) -> URL | None:
    address = text_of(settings.monitor.get("address"))
    if not address:
        return None
    parameters = {
        "interface": "org.apache.dubbo.monitor.MonitorService",
        **_runtime(around),
        "register.ip": around.local_host,
    }
    MONITOR.append_to(parameters, settings.monitor)
    APPLICATION.append_to(parameters, settings.application)
    protocol = text_of(settings.monitor.get("protocol")) or "dubbo"
    return URL.parse(address if "://" in address else f"{protocol}://{address}").with_absent(
        parameters
    )


def registered_url(url: URL, registry: URL) -> URL:
    """What the registry shows of a provider URL."""
    kept = url.without(lambda key: key in _UNREGISTERED or key.startswith("."))
    if not registry.get_bool("simplified", False):
        return kept
    extra = [key.strip() for key in registry.get("extra-keys").split(",") if key.strip()]
    if kept.path != kept.interface:
        extra.append("interface")
    wanted = {*_SIMPLIFIED, *extra}
    methods = tuple(kept.get("methods").split(","))
    return kept.without(lambda key: key not in wanted and not key.startswith(methods))
