"""PURE: the settings of an export, by section, and their conversion to URL parameters.

Uses the names of Dubbo's configuration (`timeout`, `loadbalance`, `keepAlive`), so that Dubbo's
documentation applies. A section says which of them the URL omits, escapes or renames.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from floodmark.service.errors import ConfigError
from floodmark.service.url import encode

Values = Mapping[str, Any]

_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z]")


@dataclass(frozen=True)
class Section:
    """How one section's settings become parameters."""

    excluded: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    escaped: frozenset[str] = frozenset({"document", "mock", "prompt"})
    appended: frozenset[str] = frozenset({"filter", "listener"})
    defaults: Values = field(default_factory=dict)

    def append_to(self, parameters: dict[str, str], values: Values, prefix: str = "") -> None:
        """Adds the section's values. Later sections override; filters and listeners accumulate."""
        for name, value in {**self.defaults, **values}.items():
            if name == "parameters":
                parameters.update(_extra(value, prefix))
                continue
            text = text_of(value)
            if name in self.excluded or not text:
                continue
            key = self.names.get(name) or _dotted(name)
            if name in self.escaped:
                text = encode(text)
            before = parameters.get(key)
            if name in self.appended and before:
                text = f"{before},{text}"
            parameters[f"{prefix}.{key}" if prefix else key] = text


_SERVICE_NAMES = {"filter": "service.filter", "listener": "exporter.listener", "tag": "dubbo.tag"}

APPLICATION = Section(
    excluded=frozenset({"registryIds", "hostname"}),
    names={
        "name": "application",
        "version": "application.version",
        "dumpDirectory": "dump.directory",
        "qosEnable": "qos.enable",
        "qosHost": "qos.host",
        "qosPort": "qos.port",
        "qosAcceptForeignIp": "qos.accept.foreign.ip",
        "metadataType": "metadata-type",
        "publishInterface": "publish-interface",
        "metadataServicePort": "metadata-service-port",
    },
)
MODULE = Section(names={"name": "module", "version": "module.version"})
METRICS = Section(names={"port": "metrics.port", "protocol": "metrics.protocol"})
PROVIDER = Section(
    excluded=frozenset({"default", "host", "port", "path", "contextpath", "protocolIds"}),
    names=_SERVICE_NAMES,
    defaults={"deprecated": False, "dynamic": True},
)
PROTOCOL = Section(
    excluded=frozenset({"name", "host", "port", "path", "contextpath", "dispather", "id"}),
    names={"sslEnabled": "ssl-enabled"},
)
SERVICE = Section(
    excluded=frozenset({"path", "registryIds", "protocolIds", "providerIds"}),
    names=_SERVICE_NAMES,
    defaults={"deprecated": False, "dynamic": True},
)
METHOD = Section(excluded=frozenset({"name", "arguments", "service", "serviceId"}))
ARGUMENT = Section(excluded=frozenset({"index", "type"}))
REGISTRY = Section(
    excluded=frozenset({"address", "wait"}),
    names={"useAsConfigCenter": "use-as-config-center"},
)
MONITOR = Section(excluded=frozenset({"address"}))


@dataclass(frozen=True)
class Settings:
    """Everything that determines how a service is exported."""

    application: Values = field(default_factory=dict)
    module: Values = field(default_factory=dict)
    metrics: Values = field(default_factory=dict)
    provider: Values = field(default_factory=dict)
    protocols: tuple[Values, ...] = ({},)
    registries: tuple[Values, ...] = ()
    service: Values = field(default_factory=dict)
    methods: tuple[Values, ...] = ()
    """Each with its `name`; `arguments` is a list of sections with `index`, `type` or both."""
    monitor: Values = field(default_factory=dict)
    metadata_report: str = ""

    def inherited(self, name: str) -> Any:
        """A service's setting, or the provider's."""
        value = self.service.get(name)
        return self.provider.get(name) if value is None else value


def text_of(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).strip()


def number_of(name: str, value: Any) -> int:
    """A setting that is a whole number; 0 if it is not set."""
    text = text_of(value)
    try:
        return int(text) if text else 0
    except ValueError:
        raise ConfigError(f"{name} is {text!r}: that is no whole number") from None


def _dotted(name: str) -> str:
    """`keepAlive` becomes `keep.alive`."""
    return _HUMP.sub(lambda found: f".{found.group().lower()}", name)


def _extra(values: Values, prefix: str) -> dict[str, str]:
    """Free parameters. A name with dashes also counts with dots."""
    before = f"{prefix}." if prefix else ""
    extra = {before + name: text_of(value) for name, value in values.items()}
    extra |= {
        before + name.replace("-", "."): text_of(value)
        for name, value in values.items()
        if "-" in name
    }
    return extra
