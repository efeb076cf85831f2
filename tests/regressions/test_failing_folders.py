"""What a broker with a failing log folder, or a full disk, once did."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from floodmark.controller.topics import TopicRef
from floodmark.records.record import Record, encode_batch
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.storage.files import Buffer, RealFile, RealFiles
from floodmark.testing.broker_thread import BrokerThread
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.errors import ErrorCode


class FullAtWill(RealFiles):
    """A disk that is full when it is told to be."""

    is_full = False

    def write_file_atomic(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left", str(path))
        super().write_file_atomic(path, data, sync=sync)


async def append(floodmark: BrokerThread, topic: str, partition: int) -> ErrorCode:
    batch = bytes(encode_batch([Record(0, 1, b"k", b"v", [])]))
    return floodmark.broker.replicas.append((topic, partition), batch, ACKS_ALL).error_code


def test_partitions_of_a_folder_that_is_offline_stay_offline_until_it_is_back(tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    settings = {"log.dirs": f"{first},{second}"}
    with BrokerThread(tmp_path, settings) as floodmark:
        floodmark.create_topic("t", partitions=4)
        for partition in range(4):
            assert floodmark.call(append(floodmark, "t", partition)) is ErrorCode.NONE
    lost = {("t", int(path.name.removeprefix("t-"))) for path in second.glob("t-*")}
    assert lost
    owner = second / "meta.properties"
    properties = owner.read_text()
    owner.write_text("version=garbage\n")

    with BrokerThread(tmp_path, settings) as floodmark:
        assert floodmark.broker.replicas.offline == lost
        topic = floodmark.broker.services.image.topics["t"]
        told = list(floodmark.broker.services.reachability(topic, range(4)))
        assert {("t", i) for i, one in enumerate(told) if one.leader_id == NO_LEADER} == lost
        for index, one in enumerate(told):
            is_lost = ("t", index) in lost
            assert (one.error_code is ErrorCode.LEADER_NOT_AVAILABLE) is is_lost
            assert one.offline_replicas == (list(topic.partitions[index].replicas) * is_lost)
        floodmark.create_topic("new")
        assert floodmark.call(append(floodmark, "new", 0)) is ErrorCode.NONE
    owner.write_text(properties)

    with BrokerThread(tmp_path, settings) as floodmark:
        ends = {r.key: r.log.log_end_offset for r in floodmark.broker.replicas.replicas}
        assert ends == {("new", 0): 1, **{("t", partition): 1 for partition in range(4)}}


def test_a_broker_whose_disk_is_full_stops_and_leaves_nothing_locked(tmp_path: Path):
    files = FullAtWill()
    floodmark = BrokerThread(tmp_path, files=files).start()
    floodmark.create_topic("t")
    assert floodmark.call(append(floodmark, "t", 0)) is ErrorCode.NONE
    files.is_full = True
    floodmark.stop()
    assert not floodmark.broker.controller.is_active
    assert not (tmp_path / ".kafka_cleanshutdown").exists()

    with BrokerThread(tmp_path) as floodmark:
        replica = floodmark.broker.replicas.find(("t", 0))
        assert replica is not None
        assert replica.log.log_end_offset == 1


def test_a_topic_made_on_a_full_disk_can_be_used_when_there_is_room(tmp_path: Path):
    files = FullAtWill()
    with BrokerThread(tmp_path, files=files) as floodmark:
        files.is_full = True
        floodmark.create_topic("t", partitions=3)
        assert floodmark.broker.replicas.offline == {("t", 0), ("t", 1), ("t", 2)}
        files.is_full = False
        broker = floodmark.broker
        floodmark.call(broker.partitions.reopen(broker.metadata.image))
        for partition in range(3):
            assert floodmark.call(append(floodmark, "t", partition)) is ErrorCode.NONE


def test_a_start_that_cannot_bind_its_port_keeps_the_mark_of_the_clean_stop(tmp_path: Path):
    with BrokerThread(tmp_path) as floodmark:
        floodmark.create_topic("t")
        assert floodmark.call(append(floodmark, "t", 0)) is ErrorCode.NONE
    mark = (tmp_path / ".kafka_cleanshutdown").read_bytes()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listeners = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match="in use"):
            BrokerThread(tmp_path, {"listeners": listeners}).start()
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == mark

    with BrokerThread(tmp_path) as floodmark:
        assert floodmark.broker.logs.was_clean
        assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_folder_comes_back_whose_topic_was_made_again_meanwhile(tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    settings = {"log.dirs": f"{first},{second}"}
    with BrokerThread(tmp_path, settings) as floodmark:
        floodmark.create_topic("t", partitions=2)
        for partition in range(2):
            floodmark.call(append(floodmark, "t", partition))
    owner = second / "meta.properties"
    properties = owner.read_text()
    owner.write_text("version=garbage\n")
    with BrokerThread(tmp_path, settings) as floodmark:
        floodmark.call(floodmark.broker.controller.delete_topics([TopicRef("t")]))
        floodmark.create_topic("t", partitions=2)
    owner.write_text(properties)

    with BrokerThread(tmp_path, settings) as floodmark:
        logs = {r.key: r.log for r in floodmark.broker.replicas.replicas}
        assert {key: log.log_end_offset for key, log in logs.items()} == {("t", 0): 0, ("t", 1): 0}
        assert {log.directory.parent for log in logs.values()} == {first}


class FullForRecords(RealFiles):
    """A disk without room for another batch."""

    def open(self, path: Path, *, create: bool = True) -> RealFile:
        return _FullFile(path, create=create)


class _FullFile(RealFile):
    __slots__ = ()

    def append(self, data: Buffer) -> None:
        if self.path.suffix == ".log":
            raise OSError(errno.ENOSPC, "no space left", str(self.path))
        super().append(data)


def test_producers_that_go_on_on_a_full_disk_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread(tmp_path, files=FullForRecords()) as floodmark:
        floodmark.create_topic("t")
        for _ in range(64):
            assert floodmark.call(append(floodmark, "t", 0)) is ErrorCode.KAFKA_STORAGE_ERROR
    told = [line for line in caplog.messages if "is temporarily unavailable" in line]
    assert len(told) == 7
    assert "64 times by now" in told[-1]
