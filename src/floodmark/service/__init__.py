"""Services: a Python object that Dubbo consumers in Java and Go can call.

`from floodmark.service import service, Service`. Requires the `service` extra. Names load on first
use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floodmark.service.api import service
    from floodmark.service.call import current_call
    from floodmark.service.consumer import Consumer
    from floodmark.service.errors import RemoteError, RpcError, ServiceError
    from floodmark.service.hessian.classes import JavaObject, java_class
    from floodmark.service.interface import method
    from floodmark.service.provider import Service, Services
    from floodmark.service.settings import Settings
    from floodmark.service.table import Table

_MODULES = {
    "Consumer": "consumer",
    "JavaObject": "hessian.classes",
    "RemoteError": "errors",
    "RpcError": "errors",
    "Service": "provider",
    "ServiceError": "errors",
    "Services": "provider",
    "Settings": "settings",
    "Table": "table",
    "current_call": "call",
    "java_class": "hessian.classes",
    "method": "interface",
    "service": "api",
}

__all__ = [
    "Consumer",
    "JavaObject",
    "RemoteError",
    "RpcError",
    "Service",
    "ServiceError",
    "Services",
    "Settings",
    "Table",
    "current_call",
    "java_class",
    "method",
    "service",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
