"""The topics of the coordinators: clients may read them, but not write to them or shorten them."""

import time
from collections.abc import Iterator

import pytest

from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from floodmark.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from floodmark.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient

GROUPS, TRANSACTIONS = 0, 1
INTERNAL = {"__consumer_offsets": GROUPS, "__transaction_state": TRANSACTIONS}


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


@pytest.mark.parametrize("topic", INTERNAL)
def test_who_asks_for_one_first_makes_it_as_its_coordinator_would(
    client: RawClient, topic: str
) -> None:
    """Without compaction, offsets would be forgotten with their segments."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (answer,) = client.ask(asked, 9).topics
    assert (answer.error_code, answer.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    resource = DescribeConfigsResource(
        resource_type=2, resource_name=topic, configuration_keys=["cleanup.policy"]
    )
    (described,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [config.value for config in described.configs] == ["compact"]


@pytest.mark.parametrize("topic", INTERNAL)
@pytest.mark.parametrize("version", [3, 9, 12])
def test_clients_do_not_produce_to_them(client: RawClient, topic: str, version: int) -> None:
    """One record that is none of the coordinator's would keep it from loading the rest."""
    make(client, topic)
    batch = encode_batch([Record(0, int(time.time() * 1000), b"key", b"value", [])])
    data = PartitionProduceData(index=0, records=bytes(batch))
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    (answer,) = client.ask(request, version).responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


@pytest.mark.parametrize("topic", INTERNAL)
def test_clients_do_not_delete_their_records(client: RawClient, topic: str) -> None:
    make(client, topic)
    partition = DeleteRecordsPartition(partition_index=0, offset=-1)
    wanted = [DeleteRecordsTopic(name=topic, partitions=[partition])]
    (answer,) = client.ask(DeleteRecordsRequest(topics=wanted), 2).topics[0].partitions
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


@pytest.mark.parametrize("topic", INTERNAL)
def test_clients_do_not_add_them_to_a_transaction(
    client: RawClient, floodmark_topic: str, topic: str
) -> None:
    """The markers of the transaction would be written into the coordinator's log."""
    make(client, topic)
    make(client, "__transaction_state")
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (topic, floodmark_topic)
        ],
    )
    results = client.ask(request, 3).results_by_topic_v3_and_below
    assert [
        (result.name, partition.partition_error_code)
        for result in results
        for partition in result.results_by_partition
    ] == [
        (topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (floodmark_topic, ErrorCode.OPERATION_NOT_ATTEMPTED),
    ]


def make(client: RawClient, topic: str) -> None:
    """Whoever looks for a coordinator makes its topic."""
    request = FindCoordinatorRequest(key_type=INTERNAL[topic], coordinator_keys=["somebody"])
    assert client.ask(request, 4).coordinators[0].error_code == ErrorCode.NONE
