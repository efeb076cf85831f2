"""One call, as its method sees it: `current_call()`."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any


class Call:
    """The caller, and the attachments next to the arguments and the result."""

    __slots__ = ("attachments", "method", "remote_address", "response_attachments")

    def __init__(self, method: str, attachments: Mapping[str, Any], remote_address: str) -> None:
        self.method = method
        self.attachments = attachments
        self.remote_address = remote_address
        self.response_attachments: dict[str, str] = {}


_CURRENT: ContextVar[Call] = ContextVar("floodmark_service_call")


def current_call() -> Call:
    """The call being served. Raises LookupError outside one."""
    return _CURRENT.get()


def enter_call(call: Call) -> None:
    _CURRENT.set(call)
