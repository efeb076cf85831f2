"""Transactions whose requests cross on three connections, while every write waits for an fsync.

The broker verified a produce, waited, and appended; meanwhile EndTxn had ended the transaction and
written its markers. What came after the marker opened a transaction that nobody ended: 181 of 200
partitions, and 176 of 200 groups.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from floodmark.client.cluster.connection import Connection
from floodmark.coordinators.java_hash import partition_for
from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from floodmark.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from floodmark.wire.messages.describe_transactions import DescribeTransactionsRequest
from floodmark.wire.messages.end_txn import EndTxnRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

ROUNDS = 200
OFFSETS_PARTITIONS = 50
TRANSACTIONAL_ID = "crossing"
TOPIC = "t"

FIRST_VERSION: Mapping[type, int] = {
    AddPartitionsToTxnRequest: 3,
    AddOffsetsToTxnRequest: 3,
    ProduceRequest: 11,
    TxnOffsetCommitRequest: 4,
    EndTxnRequest: 4,
}
SECOND_VERSION: Mapping[type, int] = {ProduceRequest: 12, TxnOffsetCommitRequest: 5}

ENDED = (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE)


@pytest.fixture
def floodmark_settings() -> Mapping[str, str]:
    return {
        "log.flush.interval.messages": "1",
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    }


@dataclass
class Crossing:
    """One transactional producer on three connections."""

    connections: list[Connection]
    versions: Mapping[type, int]
    producer_id: int = -1
    producer_epoch: int = -1

    async def ask(self, message: Any, lane: int = 0) -> Any:
        return await self.connections[lane].request(
            message, max_version=self.versions.get(type(message))
        )

    async def start(self) -> None:
        for key_type, key in ((1, TRANSACTIONAL_ID), (0, "g")):
            await self.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
        answer = await self.ask(
            InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
        )
        assert answer.error_code == ErrorCode.NONE
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    async def end(self, lane: int, *, committed: bool) -> ErrorCode:
        answer = await self.ask(
            EndTxnRequest(
                transactional_id=TRANSACTIONAL_ID,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                committed=committed,
            ),
            lane,
        )
        if answer.error_code == ErrorCode.NONE and answer.producer_id >= 0:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    async def settle(self, *, committed: bool) -> None:
        """Until the coordinator says that the transaction is over and its markers are written."""
        while True:
            await self.end(0, committed=committed)
            answer = await self.ask(
                DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID])
            )
            state = answer.transaction_states[0].transaction_state
            if state.startswith(("Complete", "Empty")):
                return

    async def add_partition(self, index: int) -> None:
        await self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTIONAL_ID,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[index])],
            )
        )

    async def produce(self, index: int) -> ErrorCode:
        batch = encode_batch(
            [Record(0, 1_700_000_000_000, b"k", b"v", [])],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        answer = await self.ask(
            ProduceRequest(
                transactional_id=TRANSACTIONAL_ID,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[
                    TopicProduceData(
                        name=TOPIC,
                        partition_data=[
                            PartitionProduceData(index=index, records=memoryview(batch))
                        ],
                    )
                ],
            ),
            1,
        )
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def add_offsets(self, group: str) -> None:
        await self.ask(
            AddOffsetsToTxnRequest(
                transactional_id=TRANSACTIONAL_ID,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                group_id=group,
            )
        )

    async def commit_offset(self, group: str) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        answer = await self.ask(
            TxnOffsetCommitRequest(
                transactional_id=TRANSACTIONAL_ID,
                group_id=group,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
            ),
            1,
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.fixture(params=[FIRST_VERSION, SECOND_VERSION], ids=["first version", "second version"])
async def crossing(
    floodmark: BrokerThread, request: pytest.FixtureRequest
) -> AsyncIterator[Crossing]:
    host, port = floodmark.bootstrap_servers.split(":")
    connections = [await Connection.open(host, int(port)) for _ in range(3)]
    crossing = Crossing(connections, request.param)
    await crossing.start()
    yield crossing
    for connection in connections:
        await connection.close()


async def cross(crossing: Crossing, first: Any, second: Any, *, committed: bool) -> None:
    """The first version names its partition in a request of its own, the second does not."""
    if crossing.versions is FIRST_VERSION:
        await asyncio.gather(first, second, crossing.end(2, committed=committed))
    else:
        first.close()
        await asyncio.gather(second, crossing.end(2, committed=committed))
    await crossing.settle(committed=committed)


async def test_a_produce_that_crosses_the_end_of_its_transaction_opens_no_other(
    floodmark: BrokerThread, crossing: Crossing
) -> None:
    floodmark.create_topic(TOPIC, ROUNDS)
    for index in range(ROUNDS):
        await cross(
            crossing, crossing.add_partition(index), crossing.produce(index), committed=False
        )
    assert [p async for p in open_partitions(crossing)] == []


async def open_partitions(crossing: Crossing) -> AsyncIterator[int]:
    answer = await crossing.ask(
        DescribeProducersRequest(
            topics=[TopicRequest(name=TOPIC, partition_indexes=list(range(ROUNDS)))]
        )
    )
    for partition in answer.topics[0].partitions:
        if any(p.current_txn_start_offset >= 0 for p in partition.active_producers):
            yield partition.partition_index


def groups() -> Iterator[str]:
    for number in range(ROUNDS):
        yield f"group-{number}"


async def test_offsets_that_cross_the_end_of_their_transaction_become_stable(
    floodmark: BrokerThread, crossing: Crossing
) -> None:
    floodmark.create_topic(TOPIC, 1)
    assert len({partition_for(group, OFFSETS_PARTITIONS) for group in groups()}) > 40
    for group in groups():
        await cross(
            crossing, crossing.add_offsets(group), crossing.commit_offset(group), committed=True
        )
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    answer = await crossing.connections[0].request(
        OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups()],
            require_stable=True,
        ),
        max_version=9,
    )
    unstable = [g.group_id for g in answer.groups if g.topics[0].partitions[0].error_code]
    assert unstable == []
