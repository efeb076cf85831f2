"""A coordinator's internal topic, stored in this broker's partitions.

Implements `coordinators.ports.CoordinatorLog` and, for transactions, `TransactionLog`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from floodmark.broker.controller_client import ControllerClient
from floodmark.clock import Clock
from floodmark.controller.decision import ControllerUnavailable
from floodmark.controller.topics import NewTopic
from floodmark.coordinators.ports import (
    AppendRefused,
    CoordinatorError,
    GuardedAppend,
    NotCoordinator,
    NotReadableYet,
    StorageFailed,
)
from floodmark.metadata.cache import MetadataCache
from floodmark.occurrences import Occurrences, repeated
from floodmark.records.batch import iter_headers
from floodmark.replication.outcomes import ACKS_ALL, AppendOutcome
from floodmark.replication.replica import Replica
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import AppendRefused as LogRefused
from floodmark.storage.errors import (
    OffsetOutOfRange,
    StorageError,
    TooManyFiles,
    told_to_clients,
)
from floodmark.storage.producers.transaction_guards import AppendGuard, Unguarded
from floodmark.vocabulary import NO_SEQUENCE
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)
READ_CHUNK_BYTES = 1 << 20

NOT_HERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class InternalTopicLog:
    """`settings` are the topic's own settings, as Kafka sets them.

    For `patience_ms` after the first request, the topic waits for as many brokers as it has
    replicas. Then it takes those there are.
    """

    def __init__(
        self,
        topic: str,
        *,
        partition_count: int,
        replication_factor: int,
        patience_ms: float,
        settings: Mapping[str, str],
        commit_timeout_ms: int,
        metadata: MetadataCache,
        controller: ControllerClient,
        replicas: ReplicaManager,
        clock: Clock,
    ) -> None:
        self.topic = topic
        self._configured_count = partition_count
        self._replication_factor = replication_factor
        self._patience_ms = patience_ms
        self._first_asked_ms: float | None = None
        self._settings = settings
        self._commit_timeout_ms = commit_timeout_ms
        self._metadata = metadata
        self._controller = controller
        self._replicas = replicas
        self._clock = clock
        self._refusals = Occurrences()

    @property
    def partition_count(self) -> int:
        topic = self._metadata.image.topics.get(self.topic)
        return self._configured_count if topic is None else len(topic.partitions)

    async def ensure_topic(self) -> None:
        if self.topic in self._metadata.image.topics:
            return
        live = len(self._metadata.image.live_brokers())
        factor = self._replication_factor
        if live < factor and not self._is_waiting():
            logger.info("%s is created with replicas on %d brokers", self.topic, live)
            factor = live
        wanted = NewTopic(self.topic, self._configured_count, factor, configs=dict(self._settings))
        try:
            (created,) = await self._controller.create_topics([wanted])
        except ControllerUnavailable as problem:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(problem)) from problem
        if created.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            what = f"{self.topic} could not be created: {created.message}"
            times = self._refusals.worth_telling(what)
            if times:
                # Clients keep asking, and most of them do not show the reason.
                logger.error("%s%s", what, repeated(times))
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, what)

    def _is_waiting(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if self._first_asked_ms is None:
            self._first_asked_ms = now_ms
        return now_ms - self._first_asked_ms < self._patience_ms

    def start_verification(
        self, partition: int, producer_id: int, producer_epoch: int, *, bumps_epoch: bool
    ) -> GuardedAppend:
        try:
            guard = self._leader(partition).log.producers.start_verification(
                producer_id,
                producer_epoch,
                NO_SEQUENCE,
                self._clock.now_ms(),
                bumps_epoch=bumps_epoch,
            )
        except LogRefused as problem:
            raise AppendRefused(problem.error_code, str(problem)) from problem
        return lambda batch: self.append(partition, batch, guard)

    def append(
        self, partition: int, batch: bytearray, guard: AppendGuard = Unguarded.NOT_CHECKED
    ) -> int:
        outcome = self._replicas.append_own((self.topic, partition), batch, guard)
        error_code, text = outcome.error_code, outcome.error_message or ""
        if error_code is ErrorCode.NONE:
            return outcome.required_offset
        if error_code is ErrorCode.KAFKA_STORAGE_ERROR:
            raise StorageFailed(text)
        if error_code is ErrorCode.NOT_ENOUGH_REPLICAS:
            raise AppendRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few in-sync replicas")
        if error_code in NOT_HERE:
            raise NotCoordinator(f"{self.topic}-{partition} is not led by this broker")
        raise AppendRefused(error_code, text)

    def high_watermark(self, partition: int) -> int:
        return self._leader(partition).core.high_watermark

    def log_end_offset(self, partition: int) -> int:
        return self._leader(partition).log.log_end_offset

    def leader_epoch(self, partition: int) -> int:
        return self._leader(partition).core.leadership.leader_epoch

    async def committed(self, partition: int, offset: int) -> None:
        key = (self.topic, partition)
        outcomes = {key: AppendOutcome(ErrorCode.NONE, required_offset=offset)}
        settled = await self._replicas.acknowledged(outcomes, ACKS_ALL, self._commit_timeout_ms)
        outcome = settled[key]
        if outcome.error_code is ErrorCode.REQUEST_TIMED_OUT:
            raise TimeoutError(f"{self.topic}-{partition} was not replicated in time")
        if outcome.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise NotCoordinator(f"{self.topic}-{partition} is now led by another broker")
        if outcome.error_code is not ErrorCode.NONE:
            raise CoordinatorError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.error_code.name)

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        offset = self._leader(partition).log.log_start_offset
        while True:
            log = self._leader(partition).log
            try:
                piece = log.read(offset, READ_CHUNK_BYTES, end_offset=log.log_end_offset)
                if piece is None:
                    return
                data = memoryview(piece.read())
            except OffsetOutOfRange:
                # Retention or compaction advanced the start while we read: continue there.
                offset = log.log_start_offset
                continue
            except TooManyFiles as problem:
                raise NotReadableYet(told_to_clients(problem)) from problem
            except (StorageError, OSError) as problem:
                raise StorageFailed(told_to_clients(problem)) from problem
            end = 0
            for position, header in iter_headers(data):
                end = position + header.size_bytes
                offset = header.next_offset
            if not end:
                raise StorageFailed(f"the log ends early, at offset {offset}")
            yield data[:end]

    def _leader(self, partition: int) -> Replica:
        replica = self._replicas.find((self.topic, partition))
        if replica is None or not replica.core.is_leader:
            raise NotCoordinator(f"{self.topic}-{partition} is not led by this broker")
        return replica
