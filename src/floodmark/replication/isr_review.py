"""Maintains the in-sync replicas of the partitions this broker leads.

Periodically proposes to remove lagging followers. A follower that has caught up is proposed when it
fetches (`caught_up`, hooked into the replica manager). All pending proposals go to the controller
in one AlterPartition at a time, and are repeated until answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import UUID

from floodmark.clock import Clock
from floodmark.occurrences import Occurrences, repeated
from floodmark.replication.isr_proposals import (
    IsrAnswer,
    IsrProposal,
    answers_of,
    request_of,
)
from floodmark.replication.partition import Leadership
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.supervised import repeat
from floodmark.vocabulary import TopicIdPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

logger = logging.getLogger(__name__)

Propose: TypeAlias = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]
"""PORT: asks the controller. Raises OSError if there is none or it does not respond."""

RETRY_MS = 100
"""The delay after a failure: a new controller may be elected soon, and writes wait for it."""

REPLICAS_PER_SLICE = 500


class IsrReview:
    def __init__(
        self,
        broker_id: int,
        replicas: ReplicaManager,
        propose: Propose,
        broker_epoch: Callable[[], int],
        clock: Clock,
        max_lag_ms: int,
        is_live: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """`max_lag_ms` is `replica.lag.time.max.ms`. A follower that is not live fetches on, for
        example while it is cut off from the store, but the controller would refuse it."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._propose = propose
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._max_lag_ms = max_lag_ms
        self._is_live = is_live
        # Those with a proposal that is still to be sent, for the first time or again.
        self._waiting: dict[TopicIdPartition, Replica] = {}
        self._wake = asyncio.Event()
        self._failures = Occurrences()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._replicas.on_candidate = self.caught_up
        self._tasks = [
            asyncio.create_task(repeat("isr-review", self._review_later), name="isr-review"),
            asyncio.create_task(repeat("isr-proposals", self._send_waiting), name="isr-proposals"),
        ]

    async def close(self) -> None:
        self._replicas.on_candidate = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def caught_up(self, replica: Replica, follower_id: int) -> None:
        """A follower that is not in sync has just fetched, and may have caught up."""
        if not self._is_live(follower_id):
            return
        now_ms = self._clock.monotonic_ms()
        if replica.core.propose_to_add(follower_id, now_ms, self._max_lag_ms) is not None:
            self._is_waiting(replica)

    async def review(self) -> None:
        """Proposes to remove lagging followers."""
        for count, replica in enumerate(self._replicas.replicas, 1):
            if replica.core.followers and replica.is_here:
                now_ms = self._clock.monotonic_ms()
                if replica.core.propose_to_shrink(now_ms, self._max_lag_ms) is not None:
                    self._is_waiting(replica)
            if count % REPLICAS_PER_SLICE == 0:
                await asyncio.sleep(0)

    async def send(self) -> bool:
        """Sends all pending proposals in one AlterPartition. Returns whether none needs a retry."""
        proposals = self._proposals()
        if not proposals:
            return True
        request = request_of(self._broker_id, self._broker_epoch(), list(proposals.values()))
        try:
            response = await self._propose(request)
        except OSError as problem:
            self._tell(str(problem))
            return False
        if response.error_code != ErrorCode.NONE:
            self._tell(ErrorCode.of(response.error_code).name)
            return False
        for key, answer in answers_of(response):
            if key in proposals:
                self._answered(self._waiting.get(key), proposals[key], answer)
        return not self._proposals()

    def _tell(self, why: str) -> None:
        times = self._failures.worth_telling(why)
        if times:
            text = "the controller has not changed in-sync replicas yet%s: %s"
            logger.info(text, repeated(times), why)

    async def _review_later(self) -> None:
        await asyncio.sleep(self._max_lag_ms / 2 / 1000)
        await self.review()

    async def _send_waiting(self) -> None:
        if not self._waiting:
            await self._wake.wait()
        self._wake.clear()
        if not await self.send():
            await asyncio.sleep(RETRY_MS / 1000)

    def _is_waiting(self, replica: Replica) -> None:
        self._waiting[replica.topic_id, replica.key[1]] = replica
        self._wake.set()

    def _proposals(self) -> dict[tuple[UUID, int], IsrProposal]:
        """All pending proposals. Drops those settled in the meantime."""
        proposals: dict[TopicIdPartition, IsrProposal] = {}
        for key, replica in list(self._waiting.items()):
            members = replica.core.proposal_to_send()
            if members is None or not replica.is_here or not replica.core.is_leader:
                del self._waiting[key]
                continue
            leadership = replica.core.leadership
            proposals[key] = IsrProposal(
                *key, leadership.leader_epoch, leadership.partition_epoch, members
            )
        return proposals

    def _answered(self, replica: Replica | None, proposal: IsrProposal, answer: IsrAnswer) -> None:
        if replica is None or not replica.is_here:
            return
        known = replica.core.leadership
        if not proposal.is_of(known):
            return
        if answer.error_code is not ErrorCode.NONE:
            replica.core.proposal_failed(proposal.members, answer.error_code)
            return
        decided = Leadership(
            answer.leader,
            answer.leader_epoch,
            answer.partition_epoch,
            answer.in_sync_replicas,
            known.assigned_replicas,
        )
        self._replicas.lead_or_follow(replica, decided)
        # Others may have caught up in the meantime, and their next fetch may be far off.
        for follower_id in replica.core.followers:
            self.caught_up(replica, follower_id)
