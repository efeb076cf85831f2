"""Pending verifications for one other coordinator. Owned by `transactions.verification`.

A connection answers one request after the other, and each waits for the replicas of the
transaction log. So many producers must share a request.
"""

from __future__ import annotations

import logging

from floodmark.coordinators.transactions.broker_channel import BrokerChannel
from floodmark.coordinators.transactions.ports import Cluster
from floodmark.coordinators.transactions.transaction import Outcomes
from floodmark.promise import Promise
from floodmark.vocabulary import TopicPartition
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

logger = logging.getLogger(__name__)

_Question = tuple[AddPartitionsToTxnTransaction, Promise[Outcomes]]


class VerificationChannel(BrokerChannel):
    def __init__(self, broker_id: int, cluster: Cluster) -> None:
        super().__init__(broker_id, cluster)
        self._queue: list[_Question] = []

    def ask(self, transaction: AddPartitionsToTxnTransaction) -> Promise[Outcomes]:
        answer: Promise[Outcomes] = Promise()
        self._queue.append((transaction, answer))
        self._start()
        return answer

    def _is_queue_empty(self) -> bool:
        return not self._queue

    def _next_batch(self) -> dict[str, _Question]:
        """One question per transactional id: the id tells the answers apart. Others wait."""
        batch: dict[str, _Question] = {}
        later: list[_Question] = []
        for question in self._queue:
            if batch.setdefault(question[0].transactional_id, question) is not question:
                later.append(question)
        self._queue = later
        return batch

    async def _send_queued(self) -> None:
        batch = self._next_batch()
        request = AddPartitionsToTxnRequest(transactions=[asked for asked, _ in batch.values()])
        try:
            response: AddPartitionsToTxnResponse = await self._cluster.request(
                self._broker_id, request
            )
            outcomes = _outcomes(response)
        except OSError as problem:
            logger.info("verifications by broker %d: %s", self._broker_id, problem)
            response = AddPartitionsToTxnResponse(error_code=ErrorCode.NETWORK_EXCEPTION)
            outcomes = {}
        except Exception as problem:  # noqa: BLE001 - passed on to those who asked
            for _, answer in batch.values():
                answer.fail(problem)
            return
        default = ErrorCode.of(response.error_code or ErrorCode.NETWORK_EXCEPTION)
        for transactional_id, (transaction, answer) in batch.items():
            found = outcomes.get(transactional_id, {})
            answer.set({key: found.get(key, default) for key in _partitions(transaction)})


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _outcomes(response: AddPartitionsToTxnResponse) -> dict[str, Outcomes]:
    return {
        result.transactional_id: {
            (topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
