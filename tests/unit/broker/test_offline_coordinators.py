"""Partitions of internal topics that cannot be opened: the others are served."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from floodmark.coordinators.ports import CoordinatorError, NotReadableYet, StorageFailed
from floodmark.storage.errors import DiskFull, TooManyFiles
from floodmark.storage.files import FileSlice
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.testing.broker_thread import BrokerThread
from floodmark.testing.memory_files import MemoryFiles
from floodmark.wire.errors import ErrorCode

SETTINGS = {"offsets.topic.num.partitions": "4"}


def old_message() -> bytes:
    """A message in the format of Kafka 0.10, which keeps a log from being opened."""
    body = b"\x01\x00" + bytes(8) + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x64" + b"v" * 100
    head = bytes(8) + (len(body) + 4).to_bytes(4, "big")
    return head + zlib.crc32(body).to_bytes(4, "big") + body


async def make_topic(broker: Any) -> None:
    await broker.coordination.groups.log.ensure_topic()


async def served(broker: Any) -> list[int]:
    return sorted(broker.coordination.groups.runtime.active_partitions)


async def list_groups(broker: Any) -> ErrorCode:
    error_code: ErrorCode = broker.coordination.groups.list_groups([], [])[0]
    return error_code


def test_a_broker_starts_and_serves_groups_beside_a_broken_partition(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, SETTINGS) as before:
        before.call(make_topic(before.broker))
    log_file = tmp_path / "__consumer_offsets-2" / "00000000000000000000.log"
    log_file.write_bytes(old_message())
    with BrokerThread(tmp_path, SETTINGS) as after:
        assert after.broker.replicas.offline == {("__consumer_offsets", 2)}
        assert after.call(served(after.broker)) == [0, 1, 3]
        assert after.call(list_groups(after.broker)) is ErrorCode.NONE
        after.create_topic("other-changes-go-on")


async def read_offsets(broker: Any) -> None:
    next(broker.coordination.groups.log.read(0))


def test_a_log_that_cannot_be_opened_now_is_no_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **named: Any) -> None:
        raise TooManyFiles("no file descriptors left")

    with BrokerThread(tmp_path, SETTINGS) as floodmark:
        floodmark.call(make_topic(floodmark.broker))
        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "read", refuse)
            with pytest.raises(NotReadableYet):
                floodmark.call(read_offsets(floodmark.broker))


def test_a_file_shorter_than_the_log_does_not_stop_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*args: Any, **named: Any) -> FileSlice:
        return FileSlice(MemoryFiles().open(Path("/0.log")), 0, 100)

    with BrokerThread(tmp_path, SETTINGS) as floodmark:
        floodmark.call(make_topic(floodmark.broker))
        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "read", nothing)
            with pytest.raises(StorageFailed):
                floodmark.call(read_offsets(floodmark.broker))


def test_the_log_says_why_there_is_no_coordinator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # As with Kafka, the broker's setting may be what the topic's may not.
    settings = {"offsets.topic.segment.bytes": "1000"}
    with BrokerThread(tmp_path, settings) as floodmark:
        for _ in range(3):
            with pytest.raises(CoordinatorError):
                floodmark.call(make_topic(floodmark.broker))
    told = [line for line in caplog.messages if "__consumer_offsets could not be created" in line]
    assert len(told) == 2
    assert "segment.bytes" in told[0]


def test_a_partition_that_opens_late_is_served_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerThread(tmp_path, SETTINGS) as floodmark:
        broker = floodmark.broker
        create = broker.logs.get_or_create

        def create_all_but_one(
            topic: str, partition: int, *args: Any, **named: Any
        ) -> PartitionLog:
            if partition == 1:
                raise DiskFull("no space left")
            return create(topic, partition, *args, **named)

        with monkeypatch.context() as patched:
            patched.setattr(broker.logs, "get_or_create", create_all_but_one)
            floodmark.call(make_topic(broker))
        assert floodmark.call(served(broker)) == [0, 2, 3]
        assert floodmark.call(list_groups(broker)) is ErrorCode.NONE

        async def reopen() -> None:
            await broker.partitions.reopen(broker.metadata.image)
            broker.coordination.partitions_changed()

        floodmark.call(reopen())
        assert floodmark.call(served(broker)) == [0, 1, 2, 3]
