"""One call, as its method may see it: `current_call()`."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any


class Call:
    """Who calls, what travels beside the arguments, and what is to travel beside the result."""

    __slots__ = ("attachments", "method", "remote_address", "response_attachments")

    def __init__(self, method: str, attachments: Mapping[str, Any], remote_address: str) -> None:
        self.method = method
        self.attachments = attachments
        self.remote_address = remote_address
        self.response_attachments: dict[str, str] = {}


_CURRENT: ContextVar[Call] = ContextVar("floodmark_service_call")


def current_call() -> Call:
    """The call that is being served; a LookupError outside of one."""
    return _CURRENT.get()


def enter_call(call: Call) -> None:
    _CURRENT.set(call)
