"""The quota port: how long a client must wait after exceeding its quotas (KIP-219).

A throttled client gets its response at once, including the throttle time. The network layer then
reads nothing from that connection until the time has passed. A broker without quotas uses
`Unlimited`, otherwise `apis.client_quotas`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from floodmark.network.principal import Principal


class Usage(NamedTuple):
    """A request's usage. `busy_ms` is its time on the loop, if measured."""

    principal: Principal | None
    client_id: str | None
    host: str
    api_key: int
    request_bytes: int
    answer_bytes: int
    busy_ms: float = 0.0


class Measured(NamedTuple):
    """How much of a quota was used recently, for `/metrics`."""

    quota: str
    user: str
    client_id: str
    """Both are empty if the quota does not depend on them."""
    per_second: float
    """0 for topic changes, which are not measured as a rate."""
    throttle_ms: float
    """The mean throttle time of the throttled responses."""


class Quotas(Protocol):
    """It must end `Services.generation` after every quota change.

    Prepared requests check only once whether they are unlimited.
    """

    @property
    def is_unlimited(self) -> bool:
        """Whether there is nothing to count. If so, no other method is called."""

    @property
    def measures_time(self) -> bool:
        """Whether any client's share of the loop's time is limited."""

    def measured(self) -> Sequence[Measured]:
        """The recent usage of every client with a quota."""

    def throttle_ms(self, usage: Usage) -> int:
        """Counts a request's usage. Returns how long to mute its connection, 0 for not at all."""

    def forgive_answer(self, usage: Usage) -> None:
        """Takes back the bytes of a response that was counted but not sent."""

    def most_fetched(self, principal: Principal | None, client_id: str | None) -> float:
        """How many bytes a client can fetch at once without being throttled forever."""

    def mutation_throttle_ms(
        self,
        principal: Principal | None,
        client_id: str | None,
        partitions: int,
        *,
        is_strict: bool,
    ) -> int:
        """Counts partitions a client creates or deletes (KIP-599). Returns how long to wait.

        If strict, counts nothing while the quota is exceeded.
        """


class Unlimited:
    """A broker without quotas."""

    is_unlimited = True
    measures_time = False

    def measured(self) -> Sequence[Measured]:
        return ()

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
