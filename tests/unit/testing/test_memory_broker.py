"""A broker on a disk in memory: nothing of it is on the real one, and it can be started again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from floodmark.client import Admin, Consumer, ConsumerSettings, Producer, TopicPartition
from floodmark.config.errors import ConfigError
from floodmark.testing import Broker, MemoryFiles


def in_folder(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


async def send(broker: Broker, topic: str, *values: bytes) -> None:
    async with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            await producer.send(topic, value)


async def read(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    settings = ConsumerSettings(auto_offset_reset="earliest")
    values: list[bytes | None] = []
    async with Consumer(broker.bootstrap_servers, settings) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        while len(values) < count:
            for records in (await consumer.poll(1_000)).values():
                values += [record.value for record in records]
    return values


TOUCHES = """
import asyncio, os, sys

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "subprocess.Popen"}

def watch(event, arguments):
    if event == "open" and arguments[2] & WRITING and arguments[0] != "/dev/null":
        print(event, *arguments)
    elif event in CHANGES:
        print(event, *arguments)
    elif event == "sqlite3.connect" and "mode=memory" not in str(arguments[0]):
        print(event, *arguments)

from floodmark.client import Producer
from floodmark.testing import Broker, MemoryFiles

async def send(broker):
    async with Producer(broker.bootstrap_servers) as producer:
        await producer.send_and_wait(broker.create_topic(), b"x")

sys.addaudithook(watch)
with Broker(files=MemoryFiles()) as broker:
    asyncio.run(send(broker))
    broker.stop()
    broker.start()
    asyncio.run(send(broker))
"""


def test_a_broker_on_memory_files_touches_no_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", TOUCHES],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert not in_folder(tmp_path)


@pytest.mark.parametrize("data_dir", ["given", None])
async def test_topics_and_records_on_memory_files_outlive_a_restart(
    tmp_path: Path, data_dir: str | None
) -> None:
    with Broker(tmp_path / data_dir if data_dir else None, files=MemoryFiles()) as broker:
        topic = broker.create_topic("t", partitions=2, configs={"retention.ms": 12345})
        await send(broker, topic, b"1", b"2")
        broker.stop()
        broker.start()
        async with Admin(broker.bootstrap_servers) as admin:
            (described,) = await admin.describe_topics(["t"])
            assert len(described.partitions) == 2
        assert broker.broker.metadata.image.config("topic", "t")["retention.ms"] == "12345"
    assert not in_folder(tmp_path)


async def test_a_broker_starts_on_what_a_power_loss_leaves() -> None:
    files = MemoryFiles()
    with Broker(settings={"log.flush.interval.messages": 1}, files=files) as broker:
        topic = broker.create_topic("t")
        await send(broker, topic, b"1", b"2")
        image = files.crash()
    with Broker(files=image) as broker:
        assert await read(broker, topic, 2) == [b"1", b"2"]
        await send(broker, topic, b"3")
        assert await read(broker, topic, 3) == [b"1", b"2", b"3"]


def test_compaction_on_memory_files_is_refused_and_off_by_default() -> None:
    with pytest.raises(ConfigError, match=r"log\.cleaner\.enable.*separate process"):
        Broker(settings={"log.cleaner.enable": True}, files=MemoryFiles())
    with Broker(files=MemoryFiles()) as broker:
        assert not broker.broker.config.get_bool("log.cleaner.enable")
