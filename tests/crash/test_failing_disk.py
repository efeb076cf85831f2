"""The disk of one log folder fails under idempotent load: nothing acknowledged is lost or repeated.

What passes (a write that is cut short, a disk that is full for a while) costs nobody his folder. An
I/O error takes that folder offline, and the other one serves; after a restart all of it is there.
"""

import asyncio
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crash_kit.checker import Checker
from crash_kit.failing_disk import FailingDisk
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from kit.broker import up_command
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port
from kit.waiting import wait_for

TOPIC = "failing"
PARTITIONS = 4
SEED = 5
SOUND, FAILING = "sound", "failing"
ENOUGH = 200

TOPIC_CONFIGS = {"index.interval.bytes": "512", "segment.index.bytes": "800"}
FLUSHED = {**TOPIC_CONFIGS, "flush.messages": "1"}


class Rig:
    """A broker with two log folders, one of them on a disk that can fail."""

    def __init__(self, folder: Path) -> None:
        self.disk = FailingDisk(folder)
        self.port = free_port()
        self.folder = folder
        self.broker = self._started()
        self.load = Load(f"127.0.0.1:{self.port}", TOPIC, PARTITIONS, SEED)

    def _started(self) -> ServerProcess:
        # What --data-dir says is the value of `log.dirs`, a list.
        log_dirs = Path(f"{self.folder / SOUND},{self.folder / FAILING}")
        command = up_command(self.port, log_dirs)
        output = self.folder / "floodmark.out"
        process = ServerProcess(command, output, self.disk.environment)
        process.wait_until(lambda: broker_answers(self.port), timeout_s=30)
        return process

    def restart(self) -> None:
        assert self.broker.stop() == 0
        self.broker = self._started()

    def acknowledged_in(self, log_dir: str) -> int:
        partitions = {
            int(folder.name.rpartition("-")[2])
            for folder in (self.folder / log_dir).glob(f"{TOPIC}-*")
        }
        return sum(partition in partitions for partition, _, _ in self.load.acknowledged())

    def wait_for_more(self, log_dir: str) -> None:
        before = self.acknowledged_in(log_dir)
        wait_for(lambda: self.acknowledged_in(log_dir) >= before + ENOUGH)

    def check(self) -> None:
        self.load.finish()
        assert not self.load.problems
        asyncio.run(
            Checker(TOPIC, PARTITIONS, SEED).check_all(
                dict.fromkeys(range(PARTITIONS), self.port), self.load
            )
        )


@contextmanager
def under_load(folder: Path, configs: dict[str, str]) -> Iterator[Rig]:
    rig = Rig(folder)
    try:
        asyncio.run(create_topic(rig.port, configs))
        rig.load.start()
        rig.wait_for_more(SOUND)
        rig.wait_for_more(FAILING)
        yield rig
    finally:
        rig.load.finish()
        rig.broker.stop()


async def create_topic(port: int, configs: dict[str, str]) -> None:
    async with Admin(f"127.0.0.1:{port}") as admin:
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS, 1, configs=configs))


@pytest.mark.parametrize(
    "rule",
    [
        f"short 1 40 /{FAILING}/{TOPIC}-",
        f"write {errno.ENOSPC} 20 /{FAILING}/{TOPIC}-",
    ],
    ids=["short-writes", "full-now-and-then"],
)
def test_what_passes_costs_nothing(tmp_path: Path, rule: str) -> None:
    with under_load(tmp_path, TOPIC_CONFIGS) as rig:
        rig.disk.fail(rule)
        wait_for(lambda: rig.disk.failures >= 20)
        rig.wait_for_more(FAILING)
        rig.disk.heal()
        rig.check()
        assert "offline" not in rig.broker.output()


@pytest.mark.parametrize(
    ("rule", "configs"),
    [
        (f"write {errno.EIO} 100 /{FAILING}/{TOPIC}-", TOPIC_CONFIGS),
        (f"write {errno.EROFS} 100 /{FAILING}/{TOPIC}-", TOPIC_CONFIGS),
        (f"sync {errno.EIO} 100 /{FAILING}/{TOPIC}-", FLUSHED),
    ],
    ids=["write-error", "read-only", "sync-error"],
)
def test_an_error_takes_the_folder_and_nothing_else(
    tmp_path: Path, rule: str, configs: dict[str, str]
) -> None:
    with under_load(tmp_path, configs) as rig:
        rig.disk.fail(rule)
        wait_for(lambda: f"{FAILING} is offline" in rig.broker.output())
        rig.wait_for_more(SOUND)
        rig.disk.heal()
        rig.restart()
        rig.wait_for_more(FAILING)
        rig.check()
