"""Leaves a broker that has stopped responding once another has taken over from it.

A paused or unreachable broker keeps its connections. A request to it would wait for
`request.timeout.ms`, although the cluster elected another leader long ago. So when a request stays
unanswered for clearly longer than normal, we ask the other brokers who leads the partition now, or
coordinates the group. If that is another broker, the request fails with a retriable error, and its
sender repeats it there. If it is the same one, that broker is merely slow: the request goes on
waiting, and we ask again a little later.

`cluster.py` owns the `SilentBrokers`; producers, consumers and requests to coordinators wait under
its watch. `LeaderAsked` and `CoordinatorAsked` decide and are PURE.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from floodmark.client.cluster.connection import Address, Connection
from floodmark.client.cluster.view import ClusterView, TopicPartition
from floodmark.client.errors import ConnectionFailed, KafkaError

if TYPE_CHECKING:
    from floodmark.client.cluster.cluster import Cluster, CoordinatorType

PATIENCE_MS = 1_000
"""How long a request waits, beyond what a healthy broker may take, before we ask other brokers."""

ASK_AGAIN_MS = 500
"""The least pause between two questions: producers go on within a second after an election."""

QUESTION_MS = 2_000
"""How long one question may take. The next one goes to other brokers first."""


class LeaderAsked(NamedTuple):
    """A request to a broker because it led these partitions in this view."""

    node_id: int
    partitions: Collection[TopicPartition]
    view: ClusterView

    def successor(self, now: ClusterView) -> str | None:
        """Says who has taken over a partition: another leader under a higher leader epoch."""
        for partition in self.partitions:
            before, after = self.view.partition(partition), now.partition(partition)
            if before is None or after is None or after.leader_epoch <= before.leader_epoch:
                continue
            if after.leader != self.node_id and after.leader in now.brokers:
                return f"broker {after.leader} leads {partition} now"
        return None


class CoordinatorAsked(NamedTuple):
    """A request to a broker because it was the coordinator of this group or transactional id."""

    node_id: int
    kind: CoordinatorType
    key: str

    def successor(self, now: int) -> str | None:
        if now == self.node_id:
            return None
        return f"broker {now} coordinates {self.key} now"


class Wait:
    """A request, or an attempt to connect, that its broker has not answered yet."""

    __slots__ = (
        "_owner",
        "address",
        "asked",
        "connection",
        "limit",
        "look_at",
        "lost",
        "since",
        "usual_ms",
    )

    def __init__(
        self,
        owner: SilentBrokers,
        asked: LeaderAsked | CoordinatorAsked,
        address: Address | None,
        connection: Connection | None,
        usual_ms: float,
    ) -> None:
        self._owner = owner
        self.asked = asked
        self.address = address
        # What to give up: the connection with all its requests, or else only this attempt.
        self.connection = connection
        self.limit: asyncio.Timeout | None = None
        self.lost: ConnectionFailed | None = None
        self.usual_ms = usual_ms
        self.since = self.look_at = 0.0

    def __enter__(self) -> Self:
        self._owner.begin(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._owner.end(self)

    def give_up(self, successor: str, now: float) -> None:
        self.lost = ConnectionFailed(
            f"broker {self.asked.node_id} has not responded for {now - self.since:.1f} s, "
            f"and {successor}"
        )
        if self.connection is not None:
            self.connection.abort(self.lost)
        elif self.limit is not None:
            self.limit.reschedule(now)


class SilentBrokers:
    def __init__(self, cluster: Cluster) -> None:
        self.patience_ms: float = PATIENCE_MS
        self._cluster = cluster
        self._waiting: set[Wait] = set()
        # One timer and one question at a time, however many requests wait.
        self._timer: asyncio.TimerHandle | None = None
        self._question: asyncio.Task[None] | None = None

    def request(
        self,
        asked: LeaderAsked | CoordinatorAsked,
        connection: Connection,
        *,
        usual_ms: float = 0,
    ) -> Wait:
        """Use it with `with` around a request: its connection is aborted if another took over.

        `usual_ms` is how long a healthy broker may keep such a request.
        """
        return Wait(self, asked, connection.address, connection, usual_ms)

    @asynccontextmanager
    async def attempt(
        self, asked: LeaderAsked | CoordinatorAsked, *, usual_ms: float = 0
    ) -> AsyncIterator[Wait]:
        """Use it around more than a request, such as connecting first.

        The body raises ConnectionFailed if another took over.
        """
        broker = self._cluster.view.brokers.get(asked.node_id)
        wait = Wait(self, asked, None if broker is None else broker.address, None, usual_ms)
        try:
            async with asyncio.timeout(None) as wait.limit:
                with wait:
                    yield wait
        except TimeoutError:
            if wait.lost is None:
                raise
            raise wait.lost from None

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._question is not None:
            self._question.cancel()
            await asyncio.wait([self._question])

    # --- for Wait ---

    def begin(self, wait: Wait) -> None:
        wait.since = asyncio.get_running_loop().time()
        wait.look_at = wait.since + (self.patience_ms + wait.usual_ms) / 1000
        self._waiting.add(wait)
        if self._timer is None or wait.look_at < self._timer.when():
            self._set_timer(wait.look_at)

    def end(self, wait: Wait) -> None:
        # The timer stays: one look at an empty set costs less than a timer per request.
        self._waiting.discard(wait)

    # --- inside ---

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        overdue = [wait for wait in self._waiting if wait.look_at <= now]
        for wait in overdue:
            # What may take long by itself is asked for less often.
            wait.look_at = now + max(ASK_AGAIN_MS, wait.usual_ms / 2) / 1000
        if overdue and self._question is None:
            self._question = asyncio.create_task(self._ask_others(overdue))
            self._question.add_done_callback(self._asked)
        if self._waiting:
            self._set_timer(min(wait.look_at for wait in self._waiting))

    def _asked(self, _: asyncio.Task[None]) -> None:
        self._question = None

    async def _ask_others(self, overdue: list[Wait]) -> None:
        silent = {wait.address for wait in overdue if wait.address is not None}
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(QUESTION_MS / 1000):
                await self._ask_for_leaders(overdue, silent)
                await self._ask_for_coordinators(overdue, silent)

    async def _ask_for_leaders(self, overdue: list[Wait], silent: Collection[Address]) -> None:
        # Somebody else may have learned of the new leader already.
        unknown = {
            partition.topic
            for wait in overdue
            if isinstance(wait.asked, LeaderAsked) and not self._left_leader(wait, wait.asked)
            for partition in wait.asked.partitions
        }
        if unknown:
            await self._cluster.look_up(unknown, besides=silent)
            for wait in overdue:
                if isinstance(wait.asked, LeaderAsked):
                    self._left_leader(wait, wait.asked)

    def _left_leader(self, wait: Wait, asked: LeaderAsked) -> bool:
        return self._leave(wait, asked.successor(self._cluster.view))

    async def _ask_for_coordinators(self, overdue: list[Wait], silent: Collection[Address]) -> None:
        for wait in overdue:
            if isinstance(wait.asked, CoordinatorAsked) and wait in self._waiting:
                with suppress(KafkaError):
                    now = await self._coordinator(wait.asked, silent)
                    self._leave(wait, wait.asked.successor(now))

    async def _coordinator(self, asked: CoordinatorAsked, silent: Collection[Address]) -> int:
        """Only the new coordinator can confirm that it is one: there is no epoch that tells."""
        found = await self._cluster.find_coordinator(asked.kind, asked.key, besides=silent)
        if found == asked.node_id:
            return found
        confirmed = await self._cluster.find_coordinator(asked.kind, asked.key, at=found)
        return found if confirmed == found else asked.node_id

    def _leave(self, wait: Wait, successor: str | None) -> bool:
        if successor is None or wait not in self._waiting:
            return False
        if wait.address is not None:
            self._cluster.note_silent(wait.address)
        wait.give_up(successor, asyncio.get_running_loop().time())
        return True
