"""What can go wrong with services, by who has to do something about it."""

from __future__ import annotations


class ServiceError(Exception):
    """Anything of this room."""


class InterfaceError(ServiceError):
    """A Python class cannot be a Java interface as it is."""


class ConfigError(ServiceError):
    """Settings of a service contradict each other or make no sense."""


class RegistryError(ServiceError):
    """The registry cannot be reached, or refused."""


class RpcError(ServiceError):
    """A call failed before or instead of the method; codes are those of Dubbo's RpcException."""

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
    """The method raised at the other end, an exception that has no Python class here."""

    def __init__(self, java_class: str, message: str | None) -> None:
        super().__init__(f"{java_class}: {message}")
        self.java_class = java_class
        self.message = message
