"""CORE: incremental fetch sessions (KIP-227).

A client that fetches many partitions names them once. Later requests carry only changes, and
responses only news. `handlers.fetch` opens a `FetchPlan` per request: which partitions to read, and
which results to send.

Since Fetch v13, partitions are addressed by topic id, before that by name. A session keeps the form
it started with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from floodmark.wire.errors import NO_ERROR, ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1

UNKNOWN_HIGH_WATERMARK = 2**63 - 1

MOST_PARTITIONS_KEPT = 200_000
"""The limit for all sessions combined, about 60 MB. Later clients get no session."""

LONGEST_TOPIC_NAME = 249
"""A request may name what cannot be a topic in 32 KB, which a session would keep."""

Topic: TypeAlias = str | UUID
PartitionKey: TypeAlias = tuple[Topic, int]


@dataclass(slots=True)
class FetchTarget:
    """A client's request for one partition, and what it was last sent."""

    topic: Topic
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    # A follower's known high watermark. Consumers and old followers do not send it (KIP-1166).
    high_watermark: int = UNKNOWN_HIGH_WATERMARK
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    told_last_stable_offset: int = -1

    @property
    def key(self) -> PartitionKey:
        return (self.topic, self.partition)

    def take_request(self, newer: FetchTarget) -> None:
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset
        self.high_watermark = newer.high_watermark

    def is_news(
        self,
        *,
        error: bool,
        has_records: bool,
        high_watermark: int,
        log_start_offset: int,
        last_stable_offset: int,
    ) -> bool:
        """Whether an incremental response must include this partition. Remembers what is sent."""
        news = (
            error
            or has_records
            or high_watermark != self.told_high_watermark
            or log_start_offset != self.told_log_start_offset
            or last_stable_offset != self.told_last_stable_offset
        )
        # After an error, always send the next response.
        self.told_high_watermark = -1 if error else high_watermark
        self.told_log_start_offset = log_start_offset
        self.told_last_stable_offset = last_stable_offset
        return news


@dataclass(slots=True)
class FetchSession:
    session_id: int
    uses_topic_ids: bool
    partitions: OrderedDict[PartitionKey, FetchTarget]
    last_used_ms: float
    next_epoch: int = 1


@dataclass(slots=True)
class FetchPlan:
    """How to respond to one fetch request."""

    error_code: ErrorCode
    session_id: int
    targets: list[FetchTarget]
    session: FetchSession | None = None
    is_incremental: bool = False

    def sent(self, targets_with_records: Iterable[FetchTarget]) -> None:
        """Moves served partitions to the end, so that a size limit starves none of them."""
        if self.session is not None:
            for target in targets_with_records:
                if target.key in self.session.partitions:
                    self.session.partitions.move_to_end(target.key)


class FetchSessions:
    """A broker's sessions, limited in number.

    When all `slots` are taken, the least recently used session is evicted if it has been idle for
    `eviction_ms`. Otherwise a new client gets no session, which it must expect.
    """

    def __init__(
        self,
        slots: int,
        eviction_ms: int,
        new_id: Callable[[], int],
        most_partitions: int = MOST_PARTITIONS_KEPT,
    ) -> None:
        """`most_partitions` limits a session, because each fetch checks all of its partitions."""
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._new_id = new_id
        self._most_partitions = most_partitions
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_cached(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def plan(
        self,
        session_id: int,
        session_epoch: int,
        targets: list[FetchTarget],
        forgotten: list[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_ms: float,
    ) -> FetchPlan:
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            if session_epoch == FINAL_EPOCH:
                return FetchPlan(NO_ERROR, NO_SESSION, targets)
            session = self._open(targets, uses_topic_ids, now_ms)
            opened_id = NO_SESSION if session is None else session.session_id
            return FetchPlan(NO_ERROR, opened_id, targets, session)
        return self._go_on(session_id, session_epoch, targets, forgotten, uses_topic_ids, now_ms)

    def _go_on(
        self,
        session_id: int,
        session_epoch: int,
        targets: list[FetchTarget],
        forgotten: list[PartitionKey],
        uses_topic_ids: bool,
        now_ms: float,
    ) -> FetchPlan:
        session = self._sessions.get(session_id)
        if session is None:
            return FetchPlan(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION, [])
        if session.next_epoch != session_epoch:
            return FetchPlan(ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION, [])
        if session.uses_topic_ids != uses_topic_ids:
            return FetchPlan(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, NO_SESSION, [])
        added: list[FetchTarget] = []
        for target in targets:
            known = session.partitions.get(target.key)
            if known is None:
                session.partitions[target.key] = target
                added.append(target)
            else:
                known.take_request(target)
        for key in forgotten:
            session.partitions.pop(key, None)
        if added and not self._may_keep(session, added):
            # The client starts over with a full fetch, whose size is bounded like any request.
            del self._sessions[session_id]
            return FetchPlan(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION, [])
        session.next_epoch = 1 if session_epoch == MAX_EPOCH else session_epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        if not session.partitions:
            del self._sessions[session_id]
            return FetchPlan(NO_ERROR, NO_SESSION, [])
        return FetchPlan(NO_ERROR, session_id, list(session.partitions.values()), session, True)

    def _open(
        self, targets: list[FetchTarget], uses_topic_ids: bool, now_ms: float
    ) -> FetchSession | None:
        kept = self.partitions_cached() + len(targets)
        if not targets or kept > MOST_PARTITIONS_KEPT or not _are_topics(targets):
            return None
        if not self._make_room(now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        partitions = OrderedDict((target.key, target) for target in targets)
        session = FetchSession(session_id, uses_topic_ids, partitions, now_ms)
        self._sessions[session_id] = session
        return session

    def _may_keep(self, session: FetchSession, added: list[FetchTarget]) -> bool:
        return (
            len(session.partitions) <= self._most_partitions
            and self.partitions_cached() <= MOST_PARTITIONS_KEPT
            and _are_topics(added)
        )

    def _make_room(self, now_ms: float) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < self._eviction_ms:
            return False
        del self._sessions[oldest.session_id]
        return True


def _are_topics(targets: list[FetchTarget]) -> bool:
    return all(isinstance(t.topic, UUID) or len(t.topic) <= LONGEST_TOPIC_NAME for t in targets)
