"""The fetchers of a broker: one for each leader that it follows.

The replica manager says whenever a partition may have to be fetched from somebody else; `refresh`
moves it to the fetcher of its leader, or to none. One that comes while its fetcher is in the middle
of a long poll is first served by a second fetcher, over a connection of its own: after a failover
nobody is to wait for the end of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial

from floodmark.clock import Clock
from floodmark.config.broker_config import BrokerConfig
from floodmark.replication.fetcher import Ask, FetcherSettings, LeaderFetcher
from floodmark.replication.following_session import FollowerLimits, TopicPartition
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.replication.supervised import repeat
from floodmark.storage.errors import StorageError
from floodmark.storage.log_manager import Cut, LogManager
from floodmark.vocabulary import NO_LEADER

NEWCOMERS_WAIT_MS = 50
"""A fetch of newcomers that is called off, because they were handed over, still holds up its
connection at the leader for the rest of its wait."""


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
        """`broker_epoch` is asked for before each fetch: it changes with each registration."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._logs = logs
        self._ask = ask
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._executor = executor
        self._settings = settings
        self._leader_of: dict[TopicPartition, int] = {}
        # Those without partitions stay: they are as few as the brokers of the cluster, and wait.
        self._fetchers: dict[int, LeaderFetcher] = {}
        # Beside them, those for newcomers.
        self._second: dict[int, LeaderFetcher] = {}
        self._joining: dict[int, dict[TopicPartition, Replica]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._replicas.on_following_changed = self.refresh
        for replica in self._replicas.replicas:
            self.refresh(replica)

    async def close(self) -> None:
        """Returns when nothing is being copied or truncated any more."""
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
        """Who leads this partition has changed, or whether it is here, or may be fetched."""
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

    def _join(self, leader_id: int, key: TopicPartition, replica: Replica) -> None:
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

    def _leave(self, leader_id: int, key: TopicPartition) -> None:
        self._fetchers[leader_id].unfollow(key)
        if self._joining.get(leader_id, {}).pop(key, None) is not None:
            self._second[leader_id].unfollow(key)

    def _hand_over(self, leader_id: int) -> None:
        """Before a round of a leader's fetcher: it takes the newcomers."""
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
            # The thread goes on: until it is done nobody else may touch these logs.
            await asyncio.wait([work])
            raise
