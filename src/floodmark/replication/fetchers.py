"""A broker's fetchers: one for each leader it follows.

When a partition may need another leader, the replica manager calls `refresh`, which moves it to
that leader's fetcher, or to none. If that fetcher is in the middle of a long poll, a second fetcher
with its own connection serves the partition first: after a failover, nobody should wait for the
poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial

from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.replication.fetcher import Ask, FetcherSettings, LeaderFetcher
from floodmark.replication.following_session import FollowerLimits
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import StorageError
from floodmark.storage.log_manager import LogManager
from floodmark.storage.truncations import Cut
from floodmark.supervised import repeat
from floodmark.vocabulary import NO_LEADER, TopicIdPartition

NEWCOMERS_WAIT_MS = 50
"""A newcomers' fetch that is cancelled, because they were handed over, still blocks its connection
at the leader until its wait ends."""


def fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    limits = FollowerLimits(
        max_wait_ms=config.get_int("replica.fetch.wait.max.ms"),
        min_bytes=config.get_int("replica.fetch.min.bytes"),
        max_bytes=config.get_int("replica.fetch.response.max.bytes"),
        partition_max_bytes=config.get_int("replica.fetch.max.bytes"),
    )
    return FetcherSettings(limits, config.get_int("replica.fetch.backoff.ms"))


class Fetchers:
    def __init__(
        self,
        broker_id: int,
        replicas: ReplicaManager,
        logs: LogManager,
        ask: Ask,
        broker_epoch: Callable[[], int],
        clock: Clock,
        executor: Executor,
        settings: FetcherSettings,
    ) -> None:
        """Calls `broker_epoch` before each fetch, because it changes with each registration."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._logs = logs
        self._ask = ask
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._executor = executor
        self._settings = settings
        self._leader_of: dict[TopicIdPartition, int] = {}
        # Idle ones stay: there are no more than brokers in the cluster.
        self._fetchers: dict[int, LeaderFetcher] = {}
        # The second fetchers, for newcomers.
        self._second: dict[int, LeaderFetcher] = {}
        self._joining: dict[int, dict[TopicIdPartition, Replica]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._replicas.on_following_changed = self.refresh
        for replica in self._replicas.replicas:
            self.refresh(replica)

    async def close(self) -> None:
        """Returns once nothing is being copied or truncated."""
        self._replicas.on_following_changed = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def partitions_of(self, leader_id: int) -> int:
        """How many partitions are fetched from this leader."""
        return sum(
            len(fetchers[leader_id])
            for fetchers in (self._fetchers, self._second)
            if leader_id in fetchers
        )

    def refresh(self, replica: Replica) -> None:
        """This partition's leader changed, or whether it exists here or may be fetched."""
        key = (replica.topic_id, replica.key[1])
        leader = replica.core.leadership.leader
        may_follow = replica.is_here and not replica.is_stopped
        follows = may_follow and leader not in (NO_LEADER, self._broker_id)
        before = self._leader_of.get(key)
        if before is not None and not (follows and before == leader):
            del self._leader_of[key]
            self._leave(before, key)
        if follows:
            self._leader_of[key] = leader
            self._join(leader, key, replica)

    def _join(self, leader_id: int, key: TopicIdPartition, replica: Replica) -> None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._start_one(leader_id, "fetch", self._settings)
            self._fetchers[leader_id] = fetcher
            fetcher.before_round = partial(self._hand_over, leader_id)
        if fetcher.has(key) or not fetcher.is_asking:
            fetcher.follow(key, replica)
            return
        if leader_id not in self._second:
            limits = self._settings.limits
            limits = limits._replace(max_wait_ms=min(limits.max_wait_ms, NEWCOMERS_WAIT_MS))
            settings = self._settings._replace(limits=limits)
            self._second[leader_id] = self._start_one(leader_id, "fetch-newcomers", settings)
        self._second[leader_id].follow(key, replica)
        self._joining.setdefault(leader_id, {})[key] = replica

    def _leave(self, leader_id: int, key: TopicIdPartition) -> None:
        self._fetchers[leader_id].unfollow(key)
        if self._joining.get(leader_id, {}).pop(key, None) is not None:
            self._second[leader_id].unfollow(key)

    def _hand_over(self, leader_id: int) -> None:
        """Hands newcomers to a leader's fetcher before its next round."""
        for key, replica in self._joining.pop(leader_id, {}).items():
            self._second[leader_id].unfollow(key)
            self._fetchers[leader_id].follow(key, replica)

    def _start_one(self, leader_id: int, purpose: str, settings: FetcherSettings) -> LeaderFetcher:
        fetcher = LeaderFetcher(
            leader_id,
            self._broker_id,
            self._replicas,
            self._ask,
            self._truncate,
            self._broker_epoch,
            self._clock,
            settings,
            purpose,
        )
        name = f"{purpose} from broker {leader_id}"
        self._tasks.append(asyncio.create_task(repeat(name, fetcher.one_round), name=name))
        return fetcher

    async def _truncate(self, cuts: Sequence[Cut]) -> list[StorageError | None]:
        work = asyncio.get_running_loop().run_in_executor(
            self._executor, self._logs.truncate, cuts, self._clock.now_ms()
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The thread continues: until it is done, nothing else may touch these logs.
            await asyncio.wait([work])
            raise
