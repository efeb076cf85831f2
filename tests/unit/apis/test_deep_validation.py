"""Batches that take long to validate: others are served, and what changed meanwhile counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from floodmark.records import validation
from floodmark.records.batch import read_header
from floodmark.records.compression import Compression, compress
from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.delete_topics import DeleteTopicsRequest
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from fuzz_kit.raw_client import RawClient, answer_of, request_bytes

NOW_MS = 1_700_000_000_000
VERSION = 9
LARGE = bytes(encode_batch([Record(0, NOW_MS, b"k", bytes(1000), [])] * 100))
SMALL = bytes(encode_batch([Record(0, NOW_MS, b"k", b"v", [])]))


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("zipped", configs={"compression.type": "gzip"})
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


class Gate:
    """Compression that waits until it is told to go on."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def compress(self, codec: Compression, data: bytes, level: int | None) -> bytes:
        self.reached.set()
        assert self.opened.wait(10)
        return compress(codec, data, level)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(validation, "compress", gate.compress)
    yield gate
    gate.opened.set()


def request_of(*batches: bytes) -> ProduceRequest:
    partitions = [PartitionProduceData(index=0, records=batch) for batch in batches]
    return ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name="zipped", partition_data=partitions)],
    )


def produce(client: RawClient, *batches: bytes) -> list[PartitionProduceResponse]:
    partitions: list[PartitionProduceResponse] = (
        client.ask(request_of(*batches), VERSION).responses[0].partition_responses
    )
    return partitions


def finished(client: RawClient) -> PartitionProduceResponse:
    answer = answer_of(request_of(), client.read_frame(), VERSION)
    partition: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return partition


def test_small_and_large_batches_get_the_compression_of_their_topic_in_their_order(
    floodmark: BrokerThread, client: RawClient
) -> None:
    offsets = [
        produce(client, batch)[0].base_offset for batch in (SMALL, SMALL, LARGE, SMALL, LARGE)
    ]
    assert offsets == [0, 1, 2, 102, 103]
    assert [p.base_offset for p in produce(client, LARGE, SMALL)] == [203, 303]
    log = floodmark.broker.replicas.find(("zipped", 0)).log
    headers = [header for _, _, header in log.batches(0, log.log_end_offset)]
    assert {header.compression for header in headers} == {Compression.GZIP}
    assert [header.records_count for header in headers] == [1, 1, 100, 1, 100, 100, 1]
    assert read_header(LARGE).max_timestamp == headers[-1].max_timestamp


def test_others_are_served_while_a_batch_is_compressed(
    floodmark: BrokerThread, client: RawClient, gate: Gate
) -> None:
    client.send_frame(request_bytes(request_of(LARGE), VERSION))
    assert gate.reached.wait(10)
    with RawClient(floodmark.bootstrap_servers) as other:
        assert other.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
    gate.opened.set()
    assert finished(client).error_code == ErrorCode.NONE


def test_a_batch_validated_by_other_rules_is_sent_again(
    floodmark: BrokerThread, client: RawClient, gate: Gate
) -> None:
    replica = floodmark.broker.replicas.find(("zipped", 0))
    client.send_frame(request_bytes(request_of(LARGE), VERSION))
    assert gate.reached.wait(10)
    replica.rules = replace(replica.rules, compression=Compression.ZSTD)
    gate.opened.set()
    assert finished(client).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.log.log_end_offset == 0
    assert produce(client, LARGE)[0].error_code == ErrorCode.NONE


def test_a_topic_that_was_deleted_meanwhile_takes_nothing(
    floodmark: BrokerThread, client: RawClient, gate: Gate
) -> None:
    client.send_frame(request_bytes(request_of(LARGE), VERSION))
    assert gate.reached.wait(10)
    with RawClient(floodmark.bootstrap_servers) as other:
        other.ask(DeleteTopicsRequest(topic_names=["zipped"], timeout_ms=10_000), 5)
    gate.opened.set()
    assert finished(client).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
