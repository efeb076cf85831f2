"""The port of the quotas: how long a client has to wait for exceeding them (KIP-219).

A throttled client gets its answer at once, with the time in it; the network room then reads nothing
from that connection until the time is over. The broker has `Unlimited` today.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from floodmark.network.principal import Principal


class Usage(NamedTuple):
    """What one request took."""

    principal: Principal | None
    client_id: str | None
    host: str
    api_key: int
    request_bytes: int
    answer_bytes: int


class Quotas(Protocol):
    """After every change of quotas it must end `Services.generation`, because prepared requests ask
    once whether they are unlimited."""

    @property
    def is_unlimited(self) -> bool:
        """Whether there is nothing to count: `throttle_ms` is then never called."""

    def throttle_ms(self, usage: Usage) -> int:
        """Counts what a request took; for how long its connection is to be muted, 0 for not."""


class Unlimited:
    """A broker without quotas."""

    is_unlimited = True

    def throttle_ms(self, usage: Usage) -> int:
        return 0
