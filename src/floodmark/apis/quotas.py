"""The port of the quotas: how long a client has to wait for exceeding them (KIP-219).

A throttled client gets its answer at once, with the time in it; the network room then reads nothing
from that connection until the time is over. A broker without quotas has `Unlimited`, another one
`apis.client_quotas`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from floodmark.network.principal import Principal


class Usage(NamedTuple):
    """What one request took. `busy_ms` is its time on the loop, where that is measured."""

    principal: Principal | None
    client_id: str | None
    host: str
    api_key: int
    request_bytes: int
    answer_bytes: int
    busy_ms: float = 0.0


class Quotas(Protocol):
    """After every change of quotas it must end `Services.generation`, because prepared requests ask
    once whether they are unlimited."""

    @property
    def is_unlimited(self) -> bool:
        """Whether there is nothing to count: nothing below is ever called then."""

    @property
    def measures_time(self) -> bool:
        """Whether somebody's share of the loop's time is limited."""

    def throttle_ms(self, usage: Usage) -> int:
        """Counts what a request took; for how long its connection is to be muted, 0 for not."""

    def forgive_answer(self, usage: Usage) -> None:
        """Takes back the bytes of an answer that was counted and is not sent."""

    def most_fetched(self, principal: Principal | None, client_id: str | None) -> float:
        """How many bytes a client can fetch at once without being throttled for ever."""

    def mutation_throttle_ms(
        self,
        principal: Principal | None,
        client_id: str | None,
        partitions: int,
        *,
        is_strict: bool,
    ) -> int:
        """Counts partitions that a client creates or deletes (KIP-599), and tells how long to wait.
        If strict, nothing is counted while the quota is exceeded."""


class Unlimited:
    """A broker without quotas."""

    is_unlimited = True
    measures_time = False

    def throttle_ms(self, usage: Usage) -> int:
        return 0

    def forgive_answer(self, usage: Usage) -> None:
        return None

    def most_fetched(self, principal: Principal | None, client_id: str | None) -> float:
        return float("inf")

    def mutation_throttle_ms(
        self,
        principal: Principal | None,
        client_id: str | None,
        partitions: int,
        *,
        is_strict: bool,
    ) -> int:
        return 0
