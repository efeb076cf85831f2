"""CORE: the follower's side of an incremental fetch session (KIP-227).

`replication.fetcher` keeps one per leader. It sets what to fetch and gets requests that name only
changes, so thousands of idle partitions cost nothing per round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from floodmark.replication.fetch_sessions import INITIAL_EPOCH, MAX_EPOCH, NO_SESSION
from floodmark.replication.follower import FollowerFetch
from floodmark.vocabulary import TopicIdPartition
from floodmark.wire.errors import NO_ERROR
from floodmark.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)


class Wanted(NamedTuple):
    """A follower's request for one partition, and what it reports about itself."""

    topic: str
    fetch: FollowerFetch
    log_start_offset: int
    # The last one: a change of this alone is not worth naming the partition.
    high_watermark: int


class FollowerLimits(NamedTuple):
    """Kafka's settings `replica.fetch.*`, in the order of a fetch request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class FollowingSession:
    def __init__(self, limits: FollowerLimits) -> None:
        self._limits = limits
        self._wanted: dict[TopicIdPartition, Wanted] = {}
        self._changed: dict[TopicIdPartition, None] = {}
        self._forgotten: dict[TopicIdPartition, None] = {}
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH

    def __len__(self) -> int:
        return len(self._wanted)

    def wanted(self, key: TopicIdPartition) -> Wanted | None:
        """What the last request asked for, as long as nothing else is wanted."""
        return self._wanted.get(key)

    def want(self, key: TopicIdPartition, wanted: Wanted) -> None:
        known = self._wanted.get(key)
        self._wanted[key] = wanted
        # The leader knows itself which high watermark it has told in this session.
        if known is None or known[:-1] != wanted[:-1]:
            self._changed[key] = None
        self._forgotten.pop(key, None)

    def drop(self, key: TopicIdPartition) -> None:
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def request(self, broker_id: int, broker_epoch: int, max_wait_ms: float) -> FetchRequest:
        """The next request: all partitions at the start of a session, changes within one.

        Waits at most `max_wait_ms`.
        """
        is_full = self._session_epoch == INITIAL_EPOCH
        named = list(self._wanted if is_full else self._changed)
        forgotten = [] if is_full else list(self._forgotten)
        self._changed.clear()
        self._forgotten.clear()
        limits = self._limits
        return FetchRequest(
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
            max_wait_ms=int(min(limits.max_wait_ms, max_wait_ms)),
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(named),
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in _by_topic(forgotten).items()
            ],
        )

    def answered(self, response: FetchResponse) -> bool:
        """Whether the response belongs to this session. If not, the next request starts another."""
        if response.error_code != NO_ERROR:
            self.reset()
            return False
        if response.session_id == NO_SESSION:
            self.reset()
            return True
        self._session_id = response.session_id
        is_last = self._session_epoch == MAX_EPOCH
        self._session_epoch = INITIAL_EPOCH + 1 if is_last else self._session_epoch + 1
        return True

    def reset(self) -> None:
        """Starts over, because the leader's state is unknown.

        The leader then closes the old session.
        """
        self._session_epoch = INITIAL_EPOCH

    def _topics(self, keys: Iterable[TopicIdPartition]) -> list[FetchTopic]:
        return [
            FetchTopic(
                topic=self._wanted[topic_id, partitions[0]].topic,
                topic_id=topic_id,
                partitions=[self._partition((topic_id, index)) for index in partitions],
            )
            for topic_id, partitions in _by_topic(keys).items()
        ]

    def _partition(self, key: TopicIdPartition) -> FetchPartition:
        _, fetch, log_start_offset, high_watermark = self._wanted[key]
        return FetchPartition(
            partition=key[1],
            current_leader_epoch=fetch.leader_epoch,
            fetch_offset=fetch.fetch_offset,
            last_fetched_epoch=fetch.last_fetched_epoch,
            log_start_offset=log_start_offset,
            partition_max_bytes=self._limits.partition_max_bytes,
            high_watermark=high_watermark,
        )


def _by_topic(keys: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, partition in keys:
        by_topic.setdefault(topic_id, []).append(partition)
    return by_topic
