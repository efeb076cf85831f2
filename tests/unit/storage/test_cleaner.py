"""The cleaner with its process, on a real disk."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from floodmark.clock import SystemClock
from floodmark.storage import checkpoints
from floodmark.storage.compaction.cleanable import Cleanable
from floodmark.storage.compaction.cleaner import (
    MAX_REST_ROUNDS,
    CleanerSettings,
    CleaningFailed,
    LogCleaner,
)
from floodmark.storage.compaction.compaction_worker import throttle
from floodmark.storage.files import RealFiles
from floodmark.testing.virtual_clock import VirtualClock
from kit.compaction import CompactionBench


class Kit:
    def __init__(self, folder: Path) -> None:
        self.bench = CompactionBench(RealFiles(), folder)
        self.logs = [self.bench.log]
        self.executor = ThreadPoolExecutor(1)
        self.later: list[Callable[[], None]] = []
        self.cleaner = LogCleaner(
            RealFiles(),
            lambda: [(log, log.log_end_offset) for log in self.logs],
            SystemClock(),
            self.executor,
            lambda delay_ms, work: self.later.append(work),
            CleanerSettings(backoff_ms=1),
        )

    def fill(self, rounds: int = 50) -> None:
        for number in range(rounds):
            self.bench.put((f"k{number % 5}", f"{number}"), ("x", f"{number}"))
        self.bench.roll()


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    made = Kit(tmp_path)
    yield made
    await made.cleaner.close()
    made.executor.shutdown()
    made.bench.log.close(0)


async def test_a_dirty_log_is_cleaned_by_the_process(kit: Kit, tmp_path: Path) -> None:
    kit.fill()
    table = kit.bench.table()
    assert await kit.cleaner.clean_one()
    assert kit.bench.table() == table
    assert len(kit.bench.pairs()) == 6
    assert checkpoints.read_offsets(RealFiles(), tmp_path / checkpoints.CLEANER_OFFSETS) == {
        ("table", 0): kit.bench.log.active.base_offset
    }
    assert not any(name.endswith((".cleaned", ".swap")) for name in kit.bench.names())
    for work in kit.later:
        work()
    leftovers = RealFiles().listdir(kit.bench.directory)
    assert not any(name.endswith(".deleted") for name in leftovers)


async def test_a_clean_log_is_left_alone(kit: Kit) -> None:
    kit.fill()
    assert await kit.cleaner.clean_one()
    assert not await kit.cleaner.clean_one()
    kit.fill(5)
    assert await kit.cleaner.clean_one()


async def test_appends_go_on_while_it_cleans(kit: Kit) -> None:
    kit.fill(200)
    cleaning = asyncio.ensure_future(kit.cleaner.clean_one())
    written = 0
    while not cleaning.done():
        kit.bench.put(("during", f"{written}"))
        written += 1
        await asyncio.sleep(0)
    assert await cleaning
    assert kit.bench.table()["during"] == f"{written - 1}"
    assert kit.bench.table()["x"] == "199"


async def test_it_runs_by_itself(kit: Kit) -> None:
    kit.fill()
    kit.cleaner.start()
    while len(kit.bench.pairs()) > 6:  # noqa: ASYNC110 - the disk has no event
        await asyncio.sleep(0.01)
    assert kit.bench.table()["x"] == "49"


@pytest.mark.parametrize("suffix", [".log.swap", ".index.swap", ".log.deleted", ".log"])
async def test_a_swap_that_the_disk_refuses_loses_nothing_later(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    for number, key in enumerate("aabbccdd"):
        kit.bench.put((key, f"{number:03}"))
    kit.bench.roll()
    real_rename = RealFiles.rename
    refused: list[Path] = []

    def rename(self: RealFiles, source: Path, target: Path) -> None:
        if target.name.endswith(suffix) and not refused:
            refused.append(target)
            raise OSError(errno.ENOSPC, "no space left on device", str(target))
        real_rename(self, source, target)

    monkeypatch.setattr(RealFiles, "rename", rename)
    assert await kit.cleaner.clean_one()
    assert refused
    for number in range(8):
        kit.bench.put(("other", f"{number:03}"))
    kit.bench.roll()
    table = kit.bench.table()
    for _ in range(4):
        kit.cleaner.begin_round()
        while await kit.cleaner.clean_one():
            pass
    assert kit.bench.table() == table
    kit.bench.log.close(0, clean=False)
    kit.bench.log = kit.bench.open(clean=False)
    kit.bench.clean()
    assert kit.bench.table() == table


async def test_a_damaged_log_is_given_up_and_the_others_go_on(kit: Kit) -> None:
    kit.fill()
    path = kit.bench.log.segments[0].path
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert await kit.cleaner.clean_one()
    assert not await kit.cleaner.clean_one(), "it is not tried again"


async def test_a_log_whose_aborts_cannot_be_read_is_given_up_with_the_reason(
    kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    kit.fill()
    kit.bench.log.segments[0].path.with_suffix(".txnindex").write_bytes(b"?" * 34)
    assert await kit.cleaner.clean_one()
    assert ": 00000000000000000000.txnindex is out of order" in caplog.text
    kit.cleaner.begin_round()
    assert not await kit.cleaner.clean_one(), "it is not tried again"


async def test_a_topic_made_anew_is_not_given_up_with_the_earlier_one(
    kit: Kit, tmp_path: Path
) -> None:
    kit.fill()
    kit.bench.log.segments[0].path.write_bytes(b"?" * kit.bench.log.segments[0].size_bytes)
    assert await kit.cleaner.clean_one()
    kit.bench.log.delete()
    kit.bench = CompactionBench(RealFiles(), tmp_path)
    kit.logs = [kit.bench.log]
    kit.fill()
    kit.cleaner.begin_round()
    assert await kit.cleaner.clean_one()
    assert len(kit.bench.pairs()) == 6


async def test_a_topic_made_anew_is_dirty_though_it_reaches_beyond_the_earlier_one(
    kit: Kit, tmp_path: Path
) -> None:
    kit.cleaner.begin_round()
    kit.fill(5)
    assert await kit.cleaner.clean_one()
    kit.bench.log.delete()
    kit.bench = CompactionBench(RealFiles(), tmp_path)
    kit.logs = [kit.bench.log]
    kit.cleaner.begin_round()
    kit.bench.put(("early", "1"), ("early", "2"))
    kit.fill()
    assert await kit.cleaner.clean_one()
    assert len(kit.bench.pairs()) == 7


async def test_a_log_that_cannot_be_read_does_not_keep_the_others_from_their_turn(
    kit: Kit, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = CompactionBench(RealFiles(), tmp_path / "other")
    broken.put(("k", "1"))
    broken.roll()
    broken.log.close(0)
    broken.log = broken.open()
    broken.log.segments[0].path.unlink()
    broken.log.segments[0].path.mkdir()
    kit.logs.insert(0, broken.log)
    kit.fill()
    assert await kit.cleaner.clean_one()
    assert len(kit.bench.pairs()) == 6
    assert not await kit.cleaner.clean_one()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "table-0 yet: " in caplog.text
    broken.log.close(0, clean=False)


async def test_a_folder_in_the_place_of_the_checkpoint_does_not_stop_it(
    kit: Kit, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / checkpoints.CLEANER_OFFSETS).mkdir()
    for rounds in (50, 5, 5, 5):
        kit.fill(rounds)
        kit.cleaner.begin_round()
        assert await kit.cleaner.clean_one()
        assert len(kit.bench.pairs()) == 6
        assert not await kit.cleaner.clean_one(), "what is clean is known"
    path = tmp_path / checkpoints.CLEANER_OFFSETS
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        f"{tmp_path}",  # all of its logs count as dirty
        f"could not write {path}",
        *(f"could not write {path} ({times} times by now)" for times in (2, 4)),
    ]


async def test_the_death_of_the_process_is_survived(kit: Kit) -> None:
    kit.fill()
    before = kit.bench.pairs()
    process = await kit.cleaner._start_process()
    process.kill()
    await process.wait()
    assert await kit.cleaner.clean_one()
    assert kit.bench.pairs() == before
    assert not await kit.cleaner.clean_one(), "the others have their turn first"
    kit.cleaner.begin_round()
    assert await kit.cleaner.clean_one()
    assert len(kit.bench.pairs()) < len(before)


async def test_a_log_that_fails_again_and_again_is_tried_less_and_less_often(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.fill()

    async def fails(target: Cleanable) -> None:
        raise CleaningFailed("no space left")

    tried = []
    with monkeypatch.context() as patched:
        patched.setattr(kit.cleaner, "_clean", fails)
        for number in range(1, 400):
            kit.cleaner.begin_round()
            if await kit.cleaner.clean_one():
                tried.append(number)
    assert tried == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 320, 384]
    for _ in range(MAX_REST_ROUNDS):
        kit.cleaner.begin_round()
    assert await kit.cleaner.clean_one()
    assert len(kit.bench.pairs()) == 6
    kit.fill(5)
    with monkeypatch.context() as patched:
        patched.setattr(kit.cleaner, "_clean", fails)
        for _ in range(2):
            assert await kit.cleaner.clean_one(), "a success has wiped out the failures"
            kit.cleaner.begin_round()


async def test_the_process_ends_with_its_broker_in_the_middle_of_a_job(kit: Kit) -> None:
    kit.fill()
    kit.cleaner.settings.io_bytes_per_second = 1  # this job would take hours
    cleaning = asyncio.ensure_future(kit.cleaner.clean_one())
    while (process := kit.cleaner._process) is None:  # nobody tells of it
        assert not cleaning.done(), "the machine could not start a process: see the log"
        await asyncio.sleep(0.01)
    assert process.stdin is not None
    await process.stdin.drain()
    process.stdin.close()
    assert await process.wait() == 0, "by itself: neither by a signal nor by an exception"
    assert await cleaning
    assert len(kit.bench.pairs()) == 100, "the log is as it was"


def test_the_cleaner_keeps_to_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    monkeypatch.setattr(
        "floodmark.storage.compaction.compaction_worker.sleep",
        lambda seconds: clock.advance(round(seconds * 1000)),
    )
    pace = throttle(1000, clock)
    for _ in range(10):
        pace(500)
    assert clock.monotonic_ms() == pytest.approx(5000)
