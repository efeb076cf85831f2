"""Writes the markers of decided transactions to all partitions, and reports completion.

Owned by `transactions.service`. Partitions that this broker leads are written immediately, so a
typical transaction on a single broker is complete before its client gets the response. Those of
large transactions are written in several turns of the loop. The others go to their leaders in
WriteTxnMarkers requests, repeated until every marker is written: a decided outcome is never lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from floodmark.coordinators.transactions.marker_channel import MarkerChannel
from floodmark.coordinators.transactions.ports import Cluster, Marker, MarkerLog
from floodmark.coordinators.transactions.transaction import Transaction
from floodmark.occurrences import Occurrences, repeated
from floodmark.promise import Promise
from floodmark.vocabulary import NO_LEADER, TopicPartition
from floodmark.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

RETRY_S = 0.1

MARKERS_PER_TURN: Final = 50
"""A marker takes up to half a millisecond. After this many, others get a turn of the loop."""

# The marker is written, or the partition can have no open transaction of this producer.
SETTLED: Final = frozenset(
    {
        ErrorCode.NONE,
        # The partition has seen a later epoch of the producer: this transaction is over there.
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

Results = dict[TopicPartition, "ErrorCode | Promise[ErrorCode]"]


class MarkerWriter:
    def __init__(
        self,
        broker_id: int,
        log: MarkerLog,
        cluster: Cluster,
        on_written: Callable[[int, Transaction], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._broker_id = broker_id
        self._log = log
        self._cluster = cluster
        self._on_written = on_written
        self._sleep = sleep
        self._channels: dict[int, MarkerChannel] = {}
        self._rounds: dict[int, set[asyncio.Task[None]]] = {}
        self._refusals = Occurrences()

    def write(self, log_partition: int, transaction: Transaction, coordinator_epoch: int) -> None:
        """Calls `on_written` once all is done, immediately if there is nothing to wait for."""
        marker = Marker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.is_committing,
            coordinator_epoch,
            transaction.client_version,
        )
        if len(transaction.partitions) > MARKERS_PER_TURN:
            self.spawn(log_partition, self._write_in_turns(log_partition, transaction, marker))
            return
        results = self._attempt(marker, transaction.partitions)
        if all(result is ErrorCode.NONE for result in results.values()):
            self._on_written(log_partition, transaction)
        else:
            self.spawn(log_partition, self._persist(log_partition, transaction, marker, results))

    def spawn(self, log_partition: int, work: Awaitable[None]) -> None:
        """Runs something until this broker gives up the partition of the transaction log."""
        tasks = self._rounds.setdefault(log_partition, set())
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def cancel(self, log_partition: int) -> None:
        """Another broker is the coordinator now, and continues from the log."""
        for task in self._rounds.pop(log_partition, ()):
            task.cancel()

    def close(self) -> None:
        for log_partition in list(self._rounds):
            self.cancel(log_partition)
        for channel in self._channels.values():
            channel.close()

    async def _write_in_turns(
        self, log_partition: int, transaction: Transaction, marker: Marker
    ) -> None:
        results = await self._attempt_in_turns(marker, transaction.partitions)
        await self._persist(log_partition, transaction, marker, results)

    async def _persist(
        self, log_partition: int, transaction: Transaction, marker: Marker, results: Results
    ) -> None:
        while True:
            open_partitions = []
            for partition, result in results.items():
                error_code = await result if isinstance(result, Promise) else result
                if error_code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                    logger.warning(
                        "a later coordinator of %s has written to %s-%d; leaving the rest to it",
                        transaction.transactional_id,
                        *partition,
                    )
                    return
                if error_code not in SETTLED:
                    self._tell_of_wait(transaction, partition, error_code)
                    open_partitions.append(partition)
            if not open_partitions:
                self._on_written(log_partition, transaction)
                return
            await self._sleep(RETRY_S)
            results = await self._attempt_in_turns(marker, open_partitions)

    def _tell_of_wait(
        self, transaction: Transaction, partition: TopicPartition, error_code: ErrorCode
    ) -> None:
        times = self._refusals.worth_telling(f"{partition} {error_code.name}")
        if times:
            logger.info(
                "the marker of %s for %s-%d is not written yet%s: %s",
                transaction.transactional_id,
                *partition,
                repeated(times),
                error_code.name,
            )

    async def _attempt_in_turns(
        self, marker: Marker, partitions: Iterable[TopicPartition]
    ) -> Results:
        results: Results = {}
        remaining = list(partitions)
        while remaining:
            results |= self._attempt(marker, remaining[:MARKERS_PER_TURN])
            del remaining[:MARKERS_PER_TURN]
            if remaining:
                await asyncio.sleep(0)
        return results

    def _attempt(self, marker: Marker, partitions: Iterable[TopicPartition]) -> Results:
        results: Results = {}
        for topic, partition in partitions:
            results[topic, partition] = self._send(marker, topic, partition)
        return results

    def _send(self, marker: Marker, topic: str, partition: int) -> ErrorCode | Promise[ErrorCode]:
        leader = self._cluster.leader_of(topic, partition)
        if leader is None:
            # The topic was deleted, including the open transaction.
            return ErrorCode.NONE
        if leader == self._broker_id:
            return self._log.append_marker(topic, partition, marker)
        if leader == NO_LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        channel = self._channels.get(leader)
        if channel is None:
            channel = self._channels[leader] = MarkerChannel(leader, self._cluster)
        return channel.send(marker, topic, partition)
