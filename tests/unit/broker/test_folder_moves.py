"""Partitions move between log folders while they are written to and read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from floodmark.client import Consumer, Producer, TopicPartition
from floodmark.testing import Broker
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from floodmark.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from fuzz_kit.raw_client import RawClient
from kit.waiting import eventually, wait_for

TOPIC = "t"
RECORD = b"x" * 1000
MOVES_AT_ONCE = "num.replica.alter.log.dirs.threads"


class TwoFolders:
    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folders = [folder / "a", folder / "b"]
        dirs = ",".join(map(str, self.folders))
        self.server = Broker(folder / "data", {"log.dirs": dirs, **(settings or {})}).start()

    @property
    def here(self) -> Path:
        log = self.server.broker.logs.get(TOPIC, 0)
        assert log is not None
        return log.directory.parent

    @property
    def elsewhere(self) -> Path:
        return next(folder for folder in self.folders if folder != self.here)

    def ask(self, request: object, version: int) -> Any:
        with RawClient(self.server.bootstrap_servers) as client:
            return client.ask(request, version)

    def move(self, target: Path, topic: str = TOPIC) -> int:
        wanted = AlterReplicaLogDir(
            path=str(target), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])]
        )
        answer = self.ask(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
        return answer.results[0].partitions[0].error_code

    def described(self) -> dict[Path, tuple[bool, int]]:
        """By folder: whether the partition is a future one there, and how far it lags."""
        answer = self.ask(DescribeLogDirsRequest(topics=None), 4)
        return {
            Path(result.log_dir): (partition.is_future_key, partition.offset_lag)
            for result in answer.results
            for topic in result.topics
            if topic.name == TOPIC
            for partition in topic.partitions
        }

    def throttle(self, bytes_per_second: int) -> None:
        async def set_it() -> None:
            self.server.broker.replicas.quotas.alter_log_dirs.limit_bytes = bytes_per_second

        self.server.call(set_it())


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoFolders]:
    two = TwoFolders(tmp_path)
    two.server.create_topic(TOPIC, partitions=1)
    yield two
    two.server.close()


async def write(two: TwoFolders, count: int, first: int = 0, topic: str = TOPIC) -> None:
    async with Producer(two.server.bootstrap_servers) as producer:
        for number in range(first, first + count):
            await producer.send(topic, b"%d " % number + RECORD, partition=0)


async def numbers(two: TwoFolders, count: int) -> list[int]:
    found: list[int] = []
    async with Consumer(two.server.bootstrap_servers) as consumer:
        await consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        async with asyncio.timeout(20):
            while len(found) < count:
                for records in (await consumer.poll()).values():
                    found += [int(record.value.split()[0]) for record in records]
    return found


async def test_a_partition_moves_under_load_and_keeps_every_record(two: TwoFolders) -> None:
    await write(two, 2000)
    target = two.elsewhere
    async with Producer(two.server.bootstrap_servers) as producer:
        assert await asyncio.to_thread(two.move, target) == ErrorCode.NONE
        count = 2000
        while two.here != target:
            await producer.send_and_wait(TOPIC, b"%d " % count + RECORD, partition=0)
            count += 1
        for _ in range(50):
            await producer.send_and_wait(TOPIC, b"%d " % count + RECORD, partition=0)
            count += 1
    assert await numbers(two, count) == list(range(count))
    assert await asyncio.to_thread(two.described) == {target: (False, 0)}
    two.server.stop()
    two.server.start()
    assert two.here == target
    assert await numbers(two, count) == list(range(count))


async def test_a_move_under_way_is_told_and_can_be_called_off(two: TwoFolders) -> None:
    await write(two, 500)
    source, target = two.here, two.elsewhere
    two.throttle(0)
    assert await asyncio.to_thread(two.move, target) == ErrorCode.NONE
    await eventually(lambda: two.server.broker.logs.moves.futures)
    told = await asyncio.to_thread(two.described)
    assert told[source] == (False, 0)
    assert told[target][0]
    assert await asyncio.to_thread(two.move, source) == ErrorCode.NONE
    await eventually(lambda: not two.server.broker.logs.moves.futures)
    assert two.here == source
    await eventually(lambda: not list(target.glob("*-future")))


async def test_a_stop_in_the_middle_of_a_move_only_delays_it(two: TwoFolders) -> None:
    await write(two, 500)
    target = two.elsewhere
    two.throttle(0)
    assert await asyncio.to_thread(two.move, target) == ErrorCode.NONE
    await eventually(lambda: two.server.broker.logs.moves.futures)
    two.server.stop()
    two.server.start()
    wait_for(lambda: two.here == target)
    assert await numbers(two, 500) == list(range(500))


async def test_a_truncated_log_is_copied_anew(two: TwoFolders) -> None:
    await write(two, 300)
    target = two.elsewhere
    two.throttle(0)
    assert await asyncio.to_thread(two.move, target) == ErrorCode.NONE
    await eventually(lambda: two.server.broker.logs.moves.futures)
    broker = two.server.broker

    async def cut() -> None:
        replica = broker.replicas.find((TOPIC, 0))
        assert replica is not None
        replica.log.truncate_to(100, broker.clock.now_ms())
        replica.truncated()

    two.server.call(cut())
    end_offset = broker.logs.get(TOPIC, 0).log_end_offset
    assert 0 < end_offset <= 100
    two.throttle((1 << 63) - 1)
    await eventually(lambda: two.here == target)
    assert broker.logs.get(TOPIC, 0).log_end_offset == end_offset
    assert await numbers(two, end_offset) == list(range(end_offset))


async def test_what_cannot_move_is_refused(two: TwoFolders, tmp_path: Path) -> None:
    assert await asyncio.to_thread(two.move, tmp_path / "c") == ErrorCode.LOG_DIR_NOT_FOUND
    answer = await asyncio.to_thread(two.move, two.elsewhere, "unknown")
    assert answer == ErrorCode.REPLICA_NOT_AVAILABLE


async def test_clients_that_name_what_is_not_here_do_not_fill_the_memory(two: TwoFolders) -> None:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=str(two.elsewhere),
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=list(range(15_000)))
                    for name in ("later", "x" * 250)
                ],
            )
        ]
    )
    answer = await asyncio.to_thread(two.ask, request, 2)
    codes = {one.error_code for topic in answer.results for one in topic.partitions}
    assert codes == {ErrorCode.REPLICA_NOT_AVAILABLE}
    remembered = two.server.broker.logs.preferred_dirs
    assert len(remembered) == 10_000
    assert {topic for topic, _ in remembered} == {"later"}


@pytest.mark.parametrize(("setting", "moving"), [({}, 2), ({MOVES_AT_ONCE: "1"}, 1)])
def test_as_many_partitions_move_at_a_time_as_the_setting_says(
    tmp_path: Path, setting: dict[str, str], moving: int
) -> None:
    two = TwoFolders(tmp_path, setting)
    try:
        for topic in ("t", "u", "v"):
            two.server.create_topic(topic, partitions=1)
            asyncio.run(write(two, 50, topic=topic))
        two.throttle(0)
        logs = two.server.broker.logs
        for topic in ("t", "u", "v"):
            here = logs.get(topic, 0).directory.parent
            target = next(folder for folder in two.folders if folder != here)
            assert two.move(target, topic) == ErrorCode.NONE
        wait_for(lambda: len(logs.moves.futures) == moving)
        two.throttle(1 << 40)
        wait_for(lambda: not logs.moves.futures and len(logs.logs()) >= 3)
    finally:
        two.server.close()


async def test_a_damaged_partition_does_not_keep_others_from_moving(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    two = TwoFolders(tmp_path, {MOVES_AT_ONCE: "1"})
    try:
        for topic in ("t", "u"):
            await asyncio.to_thread(two.server.create_topic, topic, partitions=1)
            await write(two, 10, topic=topic)
        logs = two.server.broker.logs
        here = {topic: logs.get(topic, 0).directory.parent for topic in ("t", "u")}
        target = {topic: next(f for f in two.folders if f != here[topic]) for topic in here}
        two.throttle(0)
        assert await asyncio.to_thread(two.move, target["t"]) == ErrorCode.NONE
        (segment,) = logs.get("t", 0).directory.glob("*.log")
        with segment.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"y")
        assert await asyncio.to_thread(two.move, target["u"], "u") == ErrorCode.NONE
        two.throttle(1 << 40)
        await eventually(lambda: logs.get("u", 0).directory.parent == target["u"])
        assert two.here == here["t"]
        assert "could not move t-0" in caplog.text
    finally:
        two.server.close()
