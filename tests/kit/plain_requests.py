"""Requests for tests that look at what a broker counts, and a client to send them."""

from floodmark.client.admin.admin import Admin
from floodmark.client.cluster.view import TopicPartition
from floodmark.controller.topics import TopicRef
from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.init_producer_id import InitProducerIdRequest
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient
from kit.waiting import wait_for


def produce_request(
    topic: str, count: int = 1, *, acks: int = 1, partition: int = 0
) -> ProduceRequest:
    batch = bytes(encode_batch([Record(0, 1, b"k", b"v", []) for _ in range(count)]))
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch_request(topic: str, offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def produce(floodmark: BrokerThread, topic: str, count: int) -> None:
    with RawClient(floodmark.bootstrap_servers) as client:
        answer = client.ask(produce_request(topic, count), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def delete(floodmark: BrokerThread, *topics: str) -> None:
    await floodmark.broker.controller.delete_topics([TopicRef(name=name) for name in topics])


async def commit(floodmark: BrokerThread, group: str, topic: str, *offsets: int) -> None:
    async with Admin(floodmark.bootstrap_servers) as admin:
        refused = await admin.alter_group_offsets(
            group, {TopicPartition(topic, i): one for i, one in enumerate(offsets)}
        )
        assert refused == {}


def begin_transactions(client: RawClient, transactional_id: str) -> None:
    """Makes the coordinator know the id, when it is ready."""
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    wait_for(lambda: client.ask(find, 4).coordinators[0].error_code == 0)
    wait_for(lambda: client.ask(init, 4).error_code == 0)
