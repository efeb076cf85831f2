"""Errors of services, by who has to act on them."""

from __future__ import annotations


class ServiceError(Exception):
    """The base of all errors in this package."""


class InterfaceError(ServiceError):
    """A Python class cannot be mapped to a Java interface."""


class ConfigError(ServiceError):
    """A service's settings conflict or are invalid."""


class RegistryError(ServiceError):
    """The registry is unreachable, or refused a request."""


class RpcError(ServiceError):
    """A call failed before or instead of the method. Uses the codes of Dubbo's RpcException."""

    UNKNOWN = 0
    NETWORK = 1
    TIMEOUT = 2
    BUSINESS = 3
    FORBIDDEN = 4
    SERIALIZATION = 5
    NO_INVOKER = 6
    LIMIT_EXCEEDED = 7

    def __init__(self, text: str, code: int = UNKNOWN) -> None:
        super().__init__(text)
        self.code = code


class RemoteError(ServiceError):
    """The remote method raised an exception that has no Python class here."""

    def __init__(self, java_class: str, message: str | None) -> None:
        super().__init__(f"{java_class}: {message}")
        self.java_class = java_class
        self.message = message
