"""The sender of a request to the group coordinator. PURE."""

from __future__ import annotations

from typing import NamedTuple


class Client(NamedTuple):
    client_id: str
    client_host: str
    api_version: int
