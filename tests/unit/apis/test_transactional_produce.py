"""Which transactional produces the broker takes."""

from collections.abc import AsyncIterator

import pytest

from floodmark.client.cluster.connection import Connection
from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_transactions import DescribeTransactionsRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

BY_NAME = 12


@pytest.fixture
async def connection(floodmark: BrokerThread) -> AsyncIterator[Connection]:
    host, port = floodmark.bootstrap_servers.split(":")
    connection = await Connection.open(host, int(port))
    yield connection
    await connection.close()


def records_of(producer_id: int, producer_epoch: int, base_sequence: int = 0) -> memoryview:
    return memoryview(
        encode_batch(
            [Record(0, 1_700_000_000_000, b"k", b"v", [])],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=True,
        )
    )


async def produce(connection: Connection, **batches: memoryview) -> list[int]:
    request = ProduceRequest(
        transactional_id="me",
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=0, records=records)]
            )
            for name, records in batches.items()
        ],
    )
    response = await connection.request(request, max_version=BY_NAME)
    return [topic.partition_responses[0].error_code for topic in response.responses]


@pytest.mark.parametrize("stranger_comes_first", [True, False])
async def test_records_of_two_producers_in_one_transactional_request_are_all_refused(
    floodmark: BrokerThread, connection: Connection, stranger_comes_first: bool
) -> None:
    for topic in ("a", "b"):
        floodmark.create_topic(topic)
    await connection.request(FindCoordinatorRequest(key_type=1, coordinator_keys=["me"]))
    me = await connection.request(
        InitProducerIdRequest(transactional_id="me", transaction_timeout_ms=60_000)
    )
    assert me.error_code == ErrorCode.NONE
    mine, strange = records_of(me.producer_id, me.producer_epoch), records_of(424_242, 0)
    first, second = (strange, mine) if stranger_comes_first else (mine, strange)

    refused = [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert await produce(connection, a=first, b=second) == refused
    for topic in ("a", "b"):
        assert floodmark.broker.replicas.find((topic, 0)).log.log_end_offset == 0

    assert await produce(connection, a=mine, b=mine) == [ErrorCode.NONE] * 2
    # Also where the producer's transaction is open already.
    other = "b" if stranger_comes_first else "a"
    assert await produce(connection, **{"a": mine, "b": mine, other: strange}) == refused


async def test_a_topic_of_the_coordinators_does_not_come_into_the_transaction(
    floodmark: BrokerThread, connection: Connection
) -> None:
    floodmark.create_topic("a")
    await connection.request(FindCoordinatorRequest(key_type=1, coordinator_keys=["me"]))
    me = await connection.request(
        InitProducerIdRequest(transactional_id="me", transaction_timeout_ms=60_000)
    )
    records = records_of(me.producer_id, me.producer_epoch)
    codes = await produce(connection, a=records, __transaction_state=records)
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION]
    described = await connection.request(DescribeTransactionsRequest(transactional_ids=["me"]))
    (state,) = described.transaction_states
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("a", [0])]


async def test_a_transaction_of_the_second_version_begins_with_sequence_0(
    floodmark: BrokerThread, connection: Connection
) -> None:
    floodmark.create_topic("a")
    await connection.request(FindCoordinatorRequest(key_type=1, coordinator_keys=["me"]))
    me = await connection.request(
        InitProducerIdRequest(transactional_id="me", transaction_timeout_ms=60_000)
    )
    late = records_of(me.producer_id, me.producer_epoch, base_sequence=5)
    assert await produce(connection, a=late) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    first = records_of(me.producer_id, me.producer_epoch)
    assert await produce(connection, a=first) == [ErrorCode.NONE]
