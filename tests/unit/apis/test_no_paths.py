"""What clients are told of a failing disk names no path on it: that is for the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from floodmark.metadata.store import StoreUnavailable
from floodmark.records.record import Record, encode_batch
from floodmark.storage.errors import DiskFull, LogDirFailure, StorageError, TooManyFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t")
    with RawClient(floodmark.bootstrap_servers) as client:
        found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert found.coordinators[0].error_code == ErrorCode.NONE
        yield client


def break_disk(monkeypatch: pytest.MonkeyPatch, kind: type[StorageError]) -> None:
    def fail(log: PartitionLog, *_: Any, **__: Any) -> NoReturn:
        if kind is LogDirFailure:
            raise LogDirFailure(log.directory.parent, f"{log.directory}: Input/output error")
        raise kind(f"{log.directory}: no room")

    monkeypatch.setattr(PartitionLog, "append", fail)


@pytest.mark.parametrize("kind", [DiskFull, TooManyFiles, LogDirFailure, StorageError])
def test_a_produce(
    floodmark: BrokerThread,
    client: RawClient,
    kind: type[StorageError],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = folder_of(floodmark)
    break_disk(monkeypatch, kind)
    batch = bytes(encode_batch([Record(0, int(time.time() * 1000), None, b"v", [])]))
    data = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    with caplog.at_level(logging.INFO):
        answer = client.ask(request, 9).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert answer.error_message and "/" not in answer.error_message
    assert folder in caplog.text, "the operator is told"


def test_a_heartbeat(
    floodmark: BrokerThread, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_disk(monkeypatch, DiskFull)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = client.ask(request, 1)
    assert answer.error_code != ErrorCode.NONE
    assert answer.error_message and "/" not in answer.error_message


def test_a_new_topic(
    floodmark: BrokerThread, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> NoReturn:
        raise StoreUnavailable(folder_of(floodmark), "could not open the file")

    monkeypatch.setattr(floodmark.broker.controller._store, "multi", fail)
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    (created,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics
    assert created.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "could not open" in created.error_message and "/" not in created.error_message


def folder_of(floodmark: BrokerThread) -> str:
    (folder,) = floodmark.broker.logs.dirs
    assert isinstance(folder, Path)
    return str(folder)
