"""Verifications for another coordinator that wait for one under way share the next request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from floodmark.coordinators.transactions.verification_channel import VerificationChannel
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

REFUSED = "refused"
FORGOTTEN = "forgotten"


class Coordinator:
    """Answers when it may. `problem` is raised instead."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.may_answer = asyncio.Semaphore(0)
        self.problem: Exception | None = None

    def leader_of(self, topic: str, partition: int) -> int | None:
        return 2

    async def request(self, broker_id: int, message: Any) -> Any:
        assert isinstance(message, AddPartitionsToTxnRequest)
        self.asked.append([one.transactional_id for one in message.transactions])
        await self.may_answer.acquire()
        if self.problem is not None:
            raise self.problem
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                _result(one) for one in message.transactions if one.transactional_id != FORGOTTEN
            ]
        )


def _result(transaction: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
    is_refused = transaction.transactional_id == REFUSED
    error_code = ErrorCode.TRANSACTION_ABORTABLE if is_refused else ErrorCode.NONE
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=error_code
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


def question(transactional_id: str, partition: int = 0) -> AddPartitionsToTxnTransaction:
    topic = AddPartitionsToTxnTopic(name="t", partitions=[partition])
    return AddPartitionsToTxnTransaction(transactional_id=transactional_id, topics=[topic])


async def test_those_that_wait_share_a_request() -> None:
    coordinator = Coordinator()
    channel = VerificationChannel(2, coordinator)
    first = channel.ask(question("a"))
    await asyncio.sleep(0)
    others = [channel.ask(question(name)) for name in ("b", REFUSED, FORGOTTEN, "c")]
    again = channel.ask(question("b", 1))
    for _ in range(3):
        coordinator.may_answer.release()
    assert await first == {("t", 0): ErrorCode.NONE}
    assert [(await other)["t", 0] for other in others] == [
        ErrorCode.NONE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert await again == {("t", 1): ErrorCode.NONE}
    assert coordinator.asked == [["a"], ["b", REFUSED, FORGOTTEN, "c"], ["b"]]


async def test_a_lost_connection_is_everybodys_answer() -> None:
    coordinator = Coordinator()
    coordinator.problem = ConnectionError("gone")
    channel = VerificationChannel(2, coordinator)
    answers = [channel.ask(question(name)) for name in ("a", "b")]
    coordinator.may_answer.release()
    assert [await answer for answer in answers] == [{("t", 0): ErrorCode.NETWORK_EXCEPTION}] * 2


async def test_a_bug_leaves_nobody_waiting() -> None:
    coordinator = Coordinator()
    coordinator.problem = ValueError("bug")
    channel = VerificationChannel(2, coordinator)
    answer = channel.ask(question("a"))
    coordinator.may_answer.release()
    with pytest.raises(ValueError, match="bug"):
        await answer
    coordinator.problem = None
    coordinator.may_answer.release()
    assert await channel.ask(question("a")) == {("t", 0): ErrorCode.NONE}
