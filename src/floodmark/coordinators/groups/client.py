"""The sender of a request to the group coordinator. PURE."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


def _every_topic(topic: str) -> bool:
    return True


class Client(NamedTuple):
    client_id: str
    client_host: str
    api_version: int
    may_describe: Callable[[str], bool] = _every_topic
    """Whether a pattern of its group may find a topic."""
