"""A response after which the connection closes. Handlers return it, `apis.route` encodes it."""

from __future__ import annotations

from typing import NamedTuple


class Farewell(NamedTuple):
    reason: str
    message: object
