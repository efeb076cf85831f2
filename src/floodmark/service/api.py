"""The user-facing API: `@service(...)` on a class, `@service.table(...)` on a pipeline's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from floodmark.service.errors import ConfigError
from floodmark.service.settings import Settings

T = TypeVar("T", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_INTERFACE = "__dubbo_interface__"
_OPTIONS = "__dubbo_options__"
_TABLE = "__served_table__"


class DeclaredTable(NamedTuple):
    """The arguments of `@service.table` on an output."""

    interface: str
    row: type
    max_lag: int


class ServiceDecorator:
    """`@service("dev.shop.Orders")` on a class, `@service.table(...)` on a pipeline's output."""

    def __call__(self, interface: str, **options: Any) -> Callable[[T], T]:
        """Declares a class's Java interface and the options of its exports."""

        def mark(cls: T) -> T:
            setattr(cls, _INTERFACE, interface)
            setattr(cls, _OPTIONS, options)
            return cls

        return mark

    def table(self, interface: str, *, row: type, max_lag: int = 10_000) -> Callable[[F], F]:
        """Serves the topic a pipeline's sink writes, for `floodmark service tables`."""

        def mark(function: F) -> F:
            setattr(function, _TABLE, DeclaredTable(interface, row, max_lag))
            return function

        return mark


service = ServiceDecorator()


def declared_table(function: Callable[..., Any]) -> DeclaredTable | None:
    """The table that a pipeline's function was marked with."""
    found: DeclaredTable | None = getattr(function, _TABLE, None)
    return found


def settings_of(
    cls: type,
    *,
    application: str | Mapping[str, Any] | None = None,
    registry: str | Sequence[str] = (),
    host: str = "",
    port: int = 0,
    protocol: str = "dubbo",
    protocols: Sequence[Mapping[str, Any]] = (),
    provider: Mapping[str, Any] | None = None,
    methods: Mapping[str, Mapping[str, Any]] | None = None,
    monitor: str = "",
    metadata_report: str = "",
    module: str = "",
    **service: Any,
) -> Settings:
    """Builds settings from options. Unnamed ones are the service's (`group`, `timeout`...)."""
    options = {**getattr(cls, _OPTIONS, {}), **service}
    name = options.pop("interface", None) or getattr(cls, _INTERFACE, None)
    if name is None:
        raise ConfigError(
            f"{cls.__name__} has no Java interface: decorate it with "
            '@service("dev.shop.Orders"), or pass interface='
        )
    registries = [registry] if isinstance(registry, str) else list(registry)
    if isinstance(application, str) or application is None:
        application = {"name": application or "floodmark"}
    default_protocol: dict[str, Any] = {"name": protocol}
    if host:
        default_protocol["host"] = host
    if port:
        default_protocol["port"] = port
    return Settings(
        application=application,
        module={"name": module} if module else {},
        provider=provider or {},
        protocols=tuple(protocols) or (default_protocol,),
        registries=tuple({"address": address} for address in registries if address),
        service={"interface": name, **options},
        methods=tuple({"name": key, **value} for key, value in (methods or {}).items()),
        monitor={"address": monitor} if monitor else {},
        metadata_report=metadata_report,
    )
