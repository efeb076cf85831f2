"""Serving leaves nothing for the cycle collector, which would stop the loop for all of it at once.

Ordinary requests are answered in numbers while the collector rests; what it finds afterwards must
be less than one object per request.
"""

import gc
import time
from collections.abc import Callable, Iterator

import pytest

from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from floodmark.wire.messages.end_txn import EndTxnRequest
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient, request_bytes

ROUNDS = 300
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
}


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def garbage_after(serve: Callable[[], None]) -> int:
    """How many objects only the collector could free, in the best of three tries: a module that
    the broker loads meanwhile leaves some as well."""
    tries = []
    for _ in range(3):
        gc.collect()
        gc.disable()
        try:
            for _ in range(ROUNDS):
                serve()
            tries.append(gc.collect())
        finally:
            gc.enable()
    return min(tries)


def produce(client: RawClient, topic: str, acks: int) -> None:
    batch = encode_batch([Record(0, int(time.time() * 1000), b"key", b"value", [])])
    data = PartitionProduceData(index=0, records=bytes(batch))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    answer = client.ask(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_long_poll_ended_by_a_produce(
    floodmark: BrokerThread, floodmark_topic: str, client: RawClient
) -> None:
    produce(client, floodmark_topic, acks=1)
    offset = 0
    with RawClient(floodmark.bootstrap_servers) as consumer:

        def serve() -> None:
            nonlocal offset
            partition = FetchPartition(fetch_offset=offset + 1, partition_max_bytes=1000)
            fetch = FetchRequest(
                max_wait_ms=10_000,
                min_bytes=1,
                max_bytes=1000,
                topics=[FetchTopic(topic=floodmark_topic, partitions=[partition])],
            )
            consumer.send_frame(request_bytes(fetch, 11))
            produce(client, floodmark_topic, acks=1)
            assert len(consumer.read_frame()) > len(b"value")
            offset += 1

        assert garbage_after(serve) < ROUNDS


def test_a_produce_that_all_replicas_must_have(floodmark_topic: str, client: RawClient) -> None:
    assert garbage_after(lambda: produce(client, floodmark_topic, acks=-1)) < ROUNDS


def test_a_commit_of_offsets(floodmark_topic: str, client: RawClient) -> None:
    while client.ask(FindCoordinatorRequest(key="group"), 1).error_code:
        pass  # its topic is being made
    partition = OffsetCommitRequestPartition(committed_offset=0)
    topics = [OffsetCommitRequestTopic(name=floodmark_topic, partitions=[partition])]

    def serve() -> None:
        answer = client.ask(OffsetCommitRequest(group_id="group", topics=topics), 8)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    assert garbage_after(serve) < ROUNDS


def test_a_producer_id_for_a_transactional_id(client: RawClient) -> None:
    request = InitProducerIdRequest(transactional_id="app", transaction_timeout_ms=60_000)
    while client.ask(FindCoordinatorRequest(key="app", key_type=1), 1).error_code:
        pass  # its topic is being made

    def serve() -> None:
        while (error_code := client.ask(request, 4).error_code) in RETRIABLE:
            pass
        assert error_code == ErrorCode.NONE

    assert garbage_after(serve) < ROUNDS


def test_a_transaction(floodmark_topic: str, client: RawClient) -> None:
    while client.ask(FindCoordinatorRequest(key="app", key_type=1), 1).error_code:
        pass  # its topic is being made
    init = InitProducerIdRequest(transactional_id="app", transaction_timeout_ms=60_000)
    while (producer := client.ask(init, 4)).error_code in RETRIABLE:
        pass
    assert producer.error_code == ErrorCode.NONE
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    topics = [AddPartitionsToTxnTopic(name=floodmark_topic, partitions=[0])]
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="app",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )

    def serve() -> None:
        def error_of_adding() -> int:
            answer = client.ask(add, 3)
            error_code: int = (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
            return error_code

        while (error_code := error_of_adding()) in RETRIABLE:
            pass
        assert error_code == ErrorCode.NONE
        end = EndTxnRequest(transactional_id="app", committed=True, **who)
        assert client.ask(end, 3).error_code == ErrorCode.NONE

    assert garbage_after(serve) < ROUNDS
