"""An answer after which the connection ends. Handlers return it, `apis.route` encodes it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Farewell(NamedTuple):
    reason: str
    message: Any
