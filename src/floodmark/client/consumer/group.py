"""A consumer's group membership: subscription, rebalances, heartbeats, listeners.

Belongs to `consumer.py`. Joining runs in the background, but partitions change only inside a poll,
which calls the listener. Heartbeats run independently of polling. A consumer that polls too rarely
leaves the group, so others can take over its partitions.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import ClusterView, TopicPartition
from floodmark.client.consumer.group_offsets import GroupMetadata
from floodmark.client.consumer.membership import DROPPED_CODES, REBALANCE, Joined, Membership
from floodmark.client.consumer.prefetcher import Fetcher
from floodmark.client.errors import KafkaError
from floodmark.client.settings import ConsumerSettings
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

# How often to check for a subscribed topic that does not exist yet.
MISSING_TOPIC_RETRY_MS = 1_000
# A poll that waits longer looks after the group this often, with or without records.
LOOK_AGAIN_MS = 1_000


class RebalanceListener:
    """Called inside `poll` or `close` when partitions change. Override what you need."""

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """This consumer is about to lose these partitions: the place to commit."""

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """This consumer now owns these partitions: the place to seek."""

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Another consumer may already own these partitions: a commit would fail."""
        await self.on_partitions_revoked(partitions)


class Subscription:
    """Topics by name, or all whose full name matches a pattern."""

    def __init__(self, topics: Iterable[str] = (), pattern: re.Pattern[str] | None = None) -> None:
        self.names = frozenset(topics)
        self.pattern = pattern

    def topics(self, view: ClusterView, *, exclude_internal: bool) -> frozenset[str]:
        if self.pattern is None:
            return self.names
        return frozenset(
            topic.name
            for topic in view.topics.values()
            if self.pattern.fullmatch(topic.name) and not (exclude_internal and topic.is_internal)
        )


class ConsumerGroup:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        fetcher: Fetcher,
        *,
        subscription: Subscription,
        listener: RebalanceListener | None,
        before_revocation: Callable[[], Awaitable[None]],
    ) -> None:
        self.membership = Membership(cluster, settings)
        self._cluster = cluster
        self._settings = settings
        self._fetcher = fetcher
        self._listener = listener or RebalanceListener()
        self._before_revocation = before_revocation
        self._subscription = subscription
        self._topics: frozenset[str] = frozenset()
        self._seen_view: ClusterView | None = None
        self._partition_counts: Mapping[str, int] | None = None
        self._looked_for_missing_ms = 0.0
        self._needs_join = True
        self._is_lost = False
        self._joining: asyncio.Task[Joined] | None = None
        self._error: KafkaError | None = None
        self._polled_ms = cluster.clock.monotonic_ms()
        if subscription.pattern is not None:
            cluster.want_all_topics()
        cluster.want_topics(subscription.names)
        fetcher.stale = True
        self._heart = asyncio.create_task(self._beat(), name="floodmark-heartbeat")

    def resubscribe(self, subscription: Subscription, listener: RebalanceListener | None) -> None:
        """Changes the topics. The group rebalances on the next poll."""
        self._subscription = subscription
        self._listener = listener or RebalanceListener()
        self._seen_view = None
        if subscription.pattern is not None:
            self._cluster.want_all_topics()
        self._cluster.want_topics(subscription.names)
        self._fetcher.stale = True

    @property
    def look_again_ms(self) -> float:
        """When a waiting poll must call `poll` again: waiting must not count as not polling."""
        pause_ms = min(LOOK_AGAIN_MS, self._settings.heartbeat_interval_ms)
        return self._cluster.clock.monotonic_ms() + pause_ms

    async def poll(self) -> None:
        """Handles due group work. Every poll of the consumer calls it."""
        self._polled_ms = self._cluster.clock.monotonic_ms()
        if self._heart.done():
            # It never finishes normally: raise its error.
            self._heart.result()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._is_lost:
            await self._give_up_lost()
        self._follow_topics()
        if self._joining is not None and self._joining.done():
            joining, self._joining = self._joining, None
            if joining.exception() is not None:
                # This poll raises the error; the next poll tries again.
                self._needs_join = True
            joined = joining.result()
            # The coordinator may have dropped this member again between two polls.
            if joined.generation_id == self.membership.generation_id:
                await self._settle(joined)
        if self._needs_join and self._joining is None:
            await self._start_join()

    def commit_refused(self, error: KafkaError, sender: GroupMetadata) -> None:
        """Handles an error response to a commit. A commit may outlive a rebalance: what it sent for
        an earlier generation says nothing about this one."""
        if sender.generation_id == self.membership.generation_id:
            self._refused(error)

    def _refused(self, error: KafkaError) -> None:
        if self._is_joining:
            # It concerns the previous membership; the join in progress settles the new one.
            return
        if error.code is REBALANCE:
            self._needs_join = True
        elif error.code in DROPPED_CODES:
            self._lose(error)
        elif error.code is ErrorCode.FENCED_INSTANCE_ID:
            self._lose(error)
            self._error = error
        self._fetcher.arrived.set()

    async def close(self) -> None:
        """Hands over the partitions and leaves the group."""
        tasks = [self._heart, *([self._joining] if self._joining is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._hand_over()
        except Exception:
            # A listener may raise anything. Others must not wait for the end of the session.
            await self._leave()
            raise
        await self._leave()

    async def _hand_over(self) -> None:
        owned = self._owned
        if self._is_lost:
            await self._give_up_lost()
        elif owned:
            await self._before_revocation()
            await self._listener.on_partitions_revoked(owned)

    async def _leave(self) -> None:
        self._fetcher.assign([])
        await self.membership.leave("the consumer was closed or unsubscribed")
        await self.membership.close()

    # --- rebalances ---

    @property
    def _is_joining(self) -> bool:
        """Whether a join is in progress. A finished one is applied by the next poll."""
        return self._joining is not None and not self._joining.done()

    @property
    def _owned(self) -> list[TopicPartition]:
        return sorted(self._fetcher.assigned)

    async def _start_join(self) -> None:
        """An eager member gives up all partitions before it joins; a cooperative one keeps them."""
        if not self._topics:
            return
        owned = self._owned
        revoked = owned
        if self.membership.is_cooperative:
            revoked = [p for p in owned if p.topic not in self._topics]
        if owned:
            await self._before_revocation()
        if self._is_lost:
            return
        if revoked:
            await self._listener.on_partitions_revoked(revoked)
            self._fetcher.assign([p for p in owned if p not in set(revoked)])
        self._needs_join = False
        self._joining = asyncio.create_task(
            self.membership.join(self._topics, self._owned), name="floodmark-join"
        )
        self._joining.add_done_callback(lambda _: self._fetcher.arrived.set())

    async def _settle(self, joined: Joined) -> None:
        """Applies the group's assignment: gives up and takes over partitions."""
        try:
            revoked = await self._give_up_for(joined)
        except BaseException:
            # A listener raised, or the poll was cancelled: the assignment is not applied.
            self._needs_join = True
            raise
        added = joined.assigned - set(self._fetcher.assigned)
        self._partition_counts = joined.partition_counts
        # The new owners of what was revoked get it once this member has rejoined without it.
        self._needs_join = self._needs_join or bool(revoked)
        self._cluster.want_topics({p.topic for p in joined.assigned})
        self._fetcher.assign(
            [p for p in self._fetcher.assigned if p not in revoked] + sorted(added)
        )
        logger.info(
            "group %s, generation %d: %d partitions assigned to %s",
            self.membership.group_id,
            self.membership.generation_id,
            len(joined.assigned),
            self.membership.member_id,
        )
        await self._listener.on_partitions_assigned(sorted(added))

    async def _give_up_for(self, joined: Joined) -> set[TopicPartition]:
        if joined.lost_ownership:
            await self._give_up_lost()
        revoked = set(self._fetcher.assigned) - joined.assigned
        if revoked:
            await self._before_revocation()
            await self._listener.on_partitions_revoked(sorted(revoked))
        return revoked

    def _lose(self, error: KafkaError) -> None:
        self.membership.drop(error)
        self._is_lost = True
        self._needs_join = True

    async def _give_up_lost(self) -> None:
        self._is_lost = False
        owned = self._owned
        self._fetcher.assign([])
        if owned:
            await self._listener.on_partitions_lost(owned)

    def _follow_topics(self) -> None:
        """Rebalances when topics appear or grow."""
        view = self._cluster.view
        if view is not self._seen_view:
            self._seen_view = view
            topics = self._subscription.topics(
                view, exclude_internal=self._settings.exclude_internal_topics
            )
            if topics != self._topics:
                self._topics = topics
                self._needs_join = True
            elif self._has_grown(view):
                self._partition_counts = None
                self._needs_join = True
        missing = not self._topics or not self._topics <= view.topics.keys()
        if missing and self._polled_ms > self._looked_for_missing_ms + MISSING_TOPIC_RETRY_MS:
            self._looked_for_missing_ms = self._polled_ms
            self._fetcher.stale = True

    def _has_grown(self, view: ClusterView) -> bool:
        """Only the leader knows which partition counts the assignment used."""
        counts = self._partition_counts
        if counts is None:
            return False
        return any(view.partition_count(topic) != count for topic, count in counts.items())

    # --- heartbeats ---

    async def _beat(self) -> None:
        pause_ms: float = self._settings.heartbeat_interval_ms
        failures = 0
        while True:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = self._settings.heartbeat_interval_ms
            if not self.membership.has_joined or self._is_joining:
                continue
            if await self._left_for_want_of_polls():
                continue
            generation_id = self.membership.generation_id
            try:
                await self.membership.heartbeat()
                failures = 0
            except KafkaError as error:
                if error.retriable:
                    failures += 1
                    pause_ms = min(pause_ms, self._cluster.delay_ms(error, failures))
                elif generation_id == self.membership.generation_id and not self._is_joining:
                    self._heart_refused(error)

    def _heart_refused(self, error: KafkaError) -> None:
        if error.code in DROPPED_CODES or error.code is REBALANCE:
            self._refused(error)
        else:
            self._lose(error)
            self._error = error
            self._fetcher.arrived.set()

    async def _left_for_want_of_polls(self) -> bool:
        limit_ms = self._settings.max_poll_interval_ms
        if self._cluster.clock.monotonic_ms() - self._polled_ms <= limit_ms:
            return False
        logger.warning(
            "leaving group %s: no poll within max.poll.interval.ms (%d); "
            "poll more often, lower max.poll.records or raise the interval",
            self.membership.group_id,
            limit_ms,
        )
        membership_left = self.membership.leave("max.poll.interval.ms exceeded")
        self._is_lost = True
        self._needs_join = True
        await membership_left
        return True
