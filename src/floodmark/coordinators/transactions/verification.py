"""Verifies that a partition is part of a transaction before it accepts records (KIP-890).

Called by the produce and offset commit APIs on any broker. For producers of transaction version 2,
the broker adds the partition. Older producers have added it themselves, so it is only verified.
Records that arrive after the end of their transaction thus never hang in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from floodmark.clock import Clock
from floodmark.coordinators.shard import Producer
from floodmark.coordinators.transactions.ports import Cluster
from floodmark.coordinators.transactions.transaction import EPOCH_BUMP_VERSION, Outcomes
from floodmark.coordinators.transactions.verification_channel import VerificationChannel
from floodmark.promise import Promise
from floodmark.vocabulary import NO_LEADER, TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from floodmark.coordinators.transactions.service import TransactionService


class PartitionVerifier:
    def __init__(
        self, broker_id: int, service: TransactionService, cluster: Cluster, clock: Clock
    ) -> None:
        self._broker_id = broker_id
        self._service = service
        self._cluster = cluster
        self._clock = clock
        self._channels: dict[int, VerificationChannel] = {}

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        add: bool,
        before_retry: Callable[[], None] | None = None,
    ) -> Outcomes | Awaitable[Outcomes]:
        """The partitions that may not be written to, with the reason. Empty if all may.

        Known immediately if this broker coordinates the transaction and its log commits
        immediately. The caller took guards before the request. `before_retry` takes them again,
        because the markers of the last transaction, which a retry waits for, invalidate them.
        """
        producer = Producer(producer_id, producer_epoch)
        outcome = self._ask(transactional_id, producer, partitions, add)
        if isinstance(outcome, dict):
            may_succeed_soon = add and ErrorCode.CONCURRENT_TRANSACTIONS in outcome.values()
            if not may_succeed_soon:
                return _refusals(outcome)

        def ask() -> Outcomes | Promise[Outcomes]:
            if before_retry is not None:
                before_retry()
            return self._ask(transactional_id, producer, partitions, add)

        return self._persist(ask if add else None, outcome)

    async def _persist(
        self,
        ask_again: Callable[[], Outcomes | Promise[Outcomes]] | None,
        answer: Outcomes | Promise[Outcomes],
    ) -> Outcomes:
        """The markers of the last transaction are usually a moment away.

        A short wait here is cheaper than sending all records again.
        """
        outcome = await answer if isinstance(answer, Promise) else answer
        limits = self._service.limits
        give_up_ms = self._clock.monotonic_ms() + limits.add_retry_max_ms
        while (
            ask_again is not None
            and ErrorCode.CONCURRENT_TRANSACTIONS in outcome.values()
            and self._clock.monotonic_ms() < give_up_ms
        ):
            await asyncio.sleep(limits.add_retry_backoff_ms / 1000)
            answer = ask_again()
            outcome = await answer if isinstance(answer, Promise) else answer
        return _refusals(outcome)

    def _ask(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        add: bool,
    ) -> Outcomes | Promise[Outcomes]:
        log = self._service.log
        leader = self._cluster.leader_of(log.topic, self._service.partition_for(transactional_id))
        if leader is None or leader == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if leader != self._broker_id:
            return self._ask_other(leader, transactional_id, producer, partitions, add)
        if not add:
            return self._service.verify_partitions(transactional_id, producer, partitions)
        added = self._service.add_partitions(
            transactional_id, producer, partitions, EPOCH_BUMP_VERSION
        )
        if isinstance(added, Promise):
            return added.map(lambda error_code: dict.fromkeys(partitions, error_code))
        return dict.fromkeys(partitions, added)

    def _ask_other(
        self,
        broker_id: int,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        add: bool,
    ) -> Promise[Outcomes]:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=not add,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in topics.items()
            ],
        )
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = VerificationChannel(broker_id, self._cluster)
        return channel.ask(transaction)


def _refusals(outcome: Outcomes) -> Outcomes:
    """Producers know INVALID_PRODUCER_EPOCH as the response to a write under an old epoch."""
    return {
        partition: ErrorCode.INVALID_PRODUCER_EPOCH
        if error_code is ErrorCode.PRODUCER_FENCED
        else error_code
        for partition, error_code in outcome.items()
        if error_code is not ErrorCode.NONE
    }
