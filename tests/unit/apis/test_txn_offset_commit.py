"""Offsets in a transaction: what is refused before the transaction is touched."""

from collections.abc import Iterator

import pytest

from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.describe_transactions import DescribeTransactionsRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from fuzz_kit.raw_client import RawClient

ADDS_OFFSETS = 5


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t", 1)
    with RawClient(floodmark.bootstrap_servers) as client:
        for key_type in (0, 1):
            client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
        yield client


def test_offsets_of_no_group_do_not_become_part_of_the_transaction(client: RawClient) -> None:
    assert commit(client, "", ("t", 0)) == {"t": [(0, ErrorCode.INVALID_GROUP_ID)]}
    (state,) = client.ask(
        DescribeTransactionsRequest(transactional_ids=["id"]), 0
    ).transaction_states
    assert (state.transaction_state, state.topics) == ("Empty", [])


def test_partitions_that_do_not_exist_are_told_beside_the_others_of_their_topic(
    client: RawClient,
) -> None:
    assert commit(client, "g", ("x", 0), ("t", 0), ("t", -1), ("t", 1), ("x", -1)) == {
        "t": [
            (0, ErrorCode.NONE),
            (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
        "x": [
            (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
    }


def commit(
    client: RawClient, group_id: str, *asked: tuple[str, int]
) -> dict[str, list[tuple[int, ErrorCode]]]:
    init = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
    producer = client.ask(init, 5)
    assert producer.error_code == ErrorCode.NONE
    request = TxnOffsetCommitRequest(
        transactional_id="id",
        group_id=group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                ],
            )
            for name, index in asked
        ],
    )
    response = client.ask(request, ADDS_OFFSETS)
    assert len({topic.name for topic in response.topics}) == len(response.topics)
    return {
        topic.name: [(p.partition_index, p.error_code) for p in topic.partitions]
        for topic in response.topics
    }
