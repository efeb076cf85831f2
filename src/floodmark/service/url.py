"""PURE: Dubbo's URL, the data structure shared by configuration, registry and calls.

Immutable. `str(url)` has sorted parameters, as in Java. A node's name in the registry is
`encode(str(url))`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from urllib.parse import quote, unquote_plus

from floodmark.service.errors import ConfigError

# What Java's URLEncoder leaves unchanged. A space becomes '+'.
_SAFE = "*-._"

ANY_VALUE = "*"
ANY_HOST = "0.0.0.0"
_EMPTY = ("", "false", "0", "null", "n/a")


def encode(text: str) -> str:
    """Works like java.net.URLEncoder."""
    return quote(text, safe=_SAFE + " ").replace("~", "%7E").replace(" ", "+")


def decode(text: str) -> str:
    return unquote_plus(text)


@dataclass(frozen=True)
class URL:
    """`protocol://username:password@host:port/path?key=value`. Equal if all parts are."""

    protocol: str
    host: str = ""
    port: int = 0
    path: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    username: str = ""
    password: str = ""

    def __post_init__(self) -> None:
        kept = {key: value for key, value in self.parameters.items() if key and value != ""}
        object.__setattr__(self, "parameters", MappingProxyType(kept))

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        credentials = f"{self.username}{':' if self.password else ''}{self.password}"
        address = f"{credentials}@" if credentials else ""
        address += self.address
        path = f"/{self.path}" if self.path else ""
        query = "&".join(f"{key}={self.parameters[key].strip()}" for key in sorted(self.parameters))
        return f"{self.protocol}://{address}{path}{'?' if query else ''}{query}"

    @classmethod
    def parse(cls, text: str) -> URL:
        """The inverse of `str`. A text without a protocol is an error."""
        base, _, query = text.strip().partition("?")
        protocol, separator, rest = base.partition("://")
        if not separator or not protocol:
            raise ConfigError(f"{text!r} is not a URL: it has no protocol, such as zookeeper://")
        address, _, path = rest.partition("/")
        credentials, _, address = address.rpartition("@")
        username, _, password = credentials.partition(":")
        host, port = _host_and_port(address, text)
        return cls(protocol, host, port, path, _parameters(query), username, password)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}" if self.port > 0 else self.host

    @property
    def interface(self) -> str:
        return self.parameters.get("interface", self.path)

    @property
    def service_key(self) -> str:
        """`group/path:version`, which identifies a service within a provider."""
        return service_key(self.path, self.get("group"), self.get("version"))

    def get(self, key: str, default: str = "") -> str:
        return self.parameters.get(key, default)

    def get_int(self, key: str, default: int) -> int:
        try:
            return int(self.parameters.get(key, default))
        except ValueError:
            return default

    def get_bool(self, key: str, default: bool) -> bool:
        value = self.parameters.get(key)
        return default if value is None else value.lower() == "true"

    def method_parameter(self, method: str, key: str, default: str = "") -> str:
        """`method.key` if set, otherwise `key`."""
        return self.parameters.get(f"{method}.{key}") or self.parameters.get(key, default)

    def with_parameters(self, more: Mapping[str, str]) -> URL:
        return replace(self, parameters={**self.parameters, **more})

    def with_absent(self, more: Mapping[str, str]) -> URL:
        return replace(self, parameters={**more, **self.parameters})

    def without(self, keys: Iterable[str] | Callable[[str], bool]) -> URL:
        drop = keys if callable(keys) else set(keys).__contains__
        kept = {key: value for key, value in self.parameters.items() if not drop(key)}
        return replace(self, parameters=kept)

    def replaced(self, **changes: object) -> URL:
        return replace(self, **changes)  # type: ignore[arg-type]


def is_set(text: str) -> bool:
    """Dubbo's words for "nothing" count as not set."""
    return text.lower() not in _EMPTY


def service_key(path: str, group: str = "", version: str = "") -> str:
    key = f"{group}/{path}" if group else path
    return f"{key}:{version}" if version and version != "0.0.0" else key


def _host_and_port(address: str, text: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return address, 0
    if not port.isdecimal() or int(port) > 65535:
        # Several hosts, as in `a:2181,b:2181`, stay together.
        raise ConfigError(f"{text!r}: {port!r} is not a port")
    return host, int(port)


def _parameters(query: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for part in query.split("&"):
        key, equals, value = part.partition("=")
        if key:
            parameters[key] = value if equals else key
    return parameters
