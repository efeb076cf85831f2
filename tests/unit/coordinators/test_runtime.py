"""The runtime against a toy shard: a register of counters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from floodmark.coordinators import runtime as runtime_module
from floodmark.coordinators.ports import (
    AppendRefused,
    CoordinatorError,
    NotCoordinator,
    NotReadableYet,
)
from floodmark.coordinators.runtime import TIMER_RETRY_MS, CoordinatorRuntime
from floodmark.coordinators.shard import Producer, Timers, Write
from floodmark.promise import Promise
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.testing.memory_coordinator_log import MemoryCoordinatorLog
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode

Entry = tuple[str, int]


class Counters:
    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.values: dict[str, int] = {}
        self.open: dict[int, list[Entry]] = {}
        self.was_unloaded = False

    def encode(self, record: Entry) -> tuple[bytes, bytes | None]:
        return record[0].encode(), str(record[1]).encode()

    def decode(self, key: bytes, value: bytes | None) -> Entry | None:
        return None if value is None else (key.decode(), int(value))

    def replay(self, record: Entry, offset: int, producer: Producer | None) -> None:
        if producer is not None:
            self.open.setdefault(producer.producer_id, []).append(record)
        else:
            self.values[record[0]] = record[1]

    def end_transaction(self, producer: Producer, *, committed: bool) -> None:
        for name, value in self.open.pop(producer.producer_id, []):
            if committed:
                self.values[name] = value

    def loaded(self, now_ms: int) -> None:
        self.loaded_ms = now_ms

    def unloaded(self) -> None:
        self.was_unloaded = True


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.log = MemoryCoordinatorLog()
        self.runtime = self.new_runtime()

    def new_runtime(self) -> CoordinatorRuntime[Counters]:
        return CoordinatorRuntime(self.log, self.clock, lambda _, timers: Counters(timers))

    def advance(self, elapsed_ms: int) -> None:
        self.clock.advance(elapsed_ms)
        self.runtime.run_timers()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    bench.runtime.load(0)
    yield bench
    bench.runtime.close()


def increment(shard: Counters, now_ms: int) -> Write[int]:
    value = shard.values.get("a", 0) + 1
    return Write(value, [("a", value)])


def code(error: CoordinatorError) -> ErrorCode:
    return error.error_code


async def test_a_write_is_answered_at_once_when_the_append_commits(bench: Bench) -> None:
    assert bench.runtime.submit(0, increment, code) == 1
    assert bench.runtime.submit(0, increment, code) == 2
    assert bench.runtime.query(0, lambda shard, _: dict(shard.values), code) == {"a": 2}


async def test_an_answer_waits_for_the_high_watermark_and_so_does_a_read(bench: Bench) -> None:
    bench.log.hold = True
    done: list[CoordinatorError | None] = []
    answer = bench.runtime.submit(
        0, lambda shard, _: Write("written", [("a", 1)], then=done.append), str
    )
    read = bench.runtime.query(0, lambda shard, _: shard.values["a"], code)
    assert isinstance(answer, Promise)
    assert isinstance(read, Promise)
    await asyncio.sleep(0)
    assert not answer.is_kept and not read.is_kept and not done
    bench.log.commit_all()
    assert await answer == "written"
    assert await read == 1
    assert done == [None]


async def test_a_failing_append_changes_nothing(bench: Bench) -> None:
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.runtime.submit(0, increment, code) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.runtime.shard(0).values == {}


def write_seven(*, atomic: bool) -> Write[str]:
    return Write("done", [(f"counter-{n}", n) for n in range(7)], atomic=atomic)


async def test_a_write_too_large_for_a_batch_is_refused_as_a_whole(bench: Bench) -> None:
    bench.log.max_batch_bytes = 120
    refused = bench.runtime.submit(0, lambda shard, _: write_seven(atomic=True), code)
    assert refused is ErrorCode.RECORD_LIST_TOO_LARGE
    assert bench.log.log_end_offset(0) == 0


async def test_records_that_stand_for_themselves_are_appended_in_batches_that_fit(
    bench: Bench,
) -> None:
    bench.log.max_batch_bytes = 120
    assert bench.runtime.submit(0, lambda shard, _: write_seven(atomic=False), code) == "done"
    expected = {f"counter-{n}": n for n in range(7)}
    assert bench.runtime.shard(0).values == expected
    assert len(list(bench.log.read(0))) > 1
    other = bench.new_runtime()
    other.load(0)
    await other.until_loaded()
    assert other.shard(0).values == expected
    other.close()


async def test_one_record_that_fits_nowhere_is_refused_after_those_before_it(
    bench: Bench,
) -> None:
    bench.log.max_batch_bytes = 120
    done: list[CoordinatorError | None] = []
    records = [("small", 1), ("large" * 100, 2), ("behind", 3)]
    refused = bench.runtime.submit(
        0, lambda shard, _: Write(None, records, then=done.append, atomic=False), code
    )
    assert refused is ErrorCode.RECORD_LIST_TOO_LARGE
    assert [error and error.error_code for error in done] == [ErrorCode.RECORD_LIST_TOO_LARGE]
    assert bench.runtime.shard(0).values == {"small": 1}


async def test_a_lost_leader_answers_the_waiting_with_not_coordinator(bench: Bench) -> None:
    bench.log.hold = True
    waiting = bench.runtime.submit(0, increment, code)
    assert isinstance(waiting, Promise)
    shard = bench.runtime.shard(0)
    bench.runtime.unload(0)
    assert await waiting == ErrorCode.NOT_COORDINATOR
    assert shard.was_unloaded
    assert bench.runtime.submit(0, increment, code) == ErrorCode.NOT_COORDINATOR


async def test_a_commit_that_takes_too_long_times_out(bench: Bench) -> None:
    bench.log.hold = True
    waiting = bench.runtime.submit(0, increment, code)
    assert isinstance(waiting, Promise)
    bench.log.lose(TimeoutError())
    assert await waiting == ErrorCode.REQUEST_TIMED_OUT


async def test_loading_replays_the_log_with_its_markers(bench: Bench) -> None:
    for producer_id, name in ((7, "committed"), (8, "aborted"), (9, "open")):
        bench.runtime.submit(
            0,
            lambda shard, _, name=name, producer_id=producer_id: Write(
                None, [(name, 1)], producer=Producer(producer_id, 0)
            ),
            code,
        )
    for producer_id, control_type in ((7, ControlType.COMMIT), (8, ControlType.ABORT)):
        marker = EndTransactionMarker(control_type, 0)
        bench.log.append(
            0, encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1)
        )
        committed = control_type is ControlType.COMMIT
        bench.runtime.marker(0, producer_id, 0, committed=committed)
    before = bench.runtime.shard(0)

    other = bench.new_runtime()
    other.load(0)
    assert other.submit(0, increment, code) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await other.until_loaded()
    after = other.shard(0)
    assert after.values == before.values == {"committed": 1}
    assert after.open == before.open == {9: [("open", 1)]}
    other.close()


async def test_loading_a_large_batch_leaves_the_loop_free(bench: Bench) -> None:
    records = [(f"counter-{n}", n) for n in range(50)]
    bench.runtime.submit(0, lambda shard, _: Write(None, records), code)
    assert len(list(bench.log.read(0))) == 1
    other = CoordinatorRuntime(bench.log, TickingClock(), lambda _, timers: Counters(timers))
    other.load(0)
    turns = 0
    while other.is_loading():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 4
    assert other.shard(0).values == dict(records)
    other.close()


class TickingClock(VirtualClock):
    """Whatever is done takes its time."""

    def monotonic_ms(self) -> float:
        self.advance(1)
        return super().monotonic_ms()


async def test_a_timer_runs_once_when_its_time_has_come(bench: Bench) -> None:
    shard = bench.runtime.shard(0)
    shard.timers.schedule("t", 1000, increment)
    shard.timers.schedule("t", 2000, increment)
    bench.advance(1500)
    assert shard.values == {}
    bench.advance(500)
    bench.advance(5000)
    assert shard.values == {"a": 1}


async def test_a_timer_moved_forward_runs_early_and_a_cancelled_one_never(bench: Bench) -> None:
    shard = bench.runtime.shard(0)
    shard.timers.schedule("t", 1000, increment)
    shard.timers.schedule("t", 10, increment)
    shard.timers.schedule("u", 10, increment)
    shard.timers.cancel("u")
    bench.advance(20)
    assert shard.values == {"a": 1}
    bench.advance(2000)
    assert shard.values == {"a": 1}


async def test_a_timer_whose_append_fails_tries_again(bench: Bench) -> None:
    shard = bench.runtime.shard(0)
    shard.timers.schedule("t", 10, increment)
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.advance(10)
    bench.log.fail_with = None
    bench.advance(TIMER_RETRY_MS)
    assert shard.values == {"a": 1}


async def test_timers_that_are_refused_again_and_again_do_not_fill_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    shard = bench.runtime.shard(0)
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    for name in ("s", "t"):
        shard.timers.schedule(name, 10, increment)
    for _ in range(100):
        bench.advance(TIMER_RETRY_MS)
    assert len(caplog.records) == 8, "at the 1st, 2nd, 4th ... 128th of 200 times"
    assert "128 times by now" in caplog.records[-1].message


async def test_a_timer_without_delay_that_sets_itself_again_leaves_time_for_others(
    bench: Bench,
) -> None:
    shard = bench.runtime.shard(0)
    turns = []

    def again(shard: Counters, now_ms: int) -> Write[None]:
        turns.append(now_ms)
        shard.timers.schedule("again", -(2**31), again)
        return Write(None)

    again(shard, 0)
    shard.timers.schedule("other", 5, increment)
    bench.advance(10)
    assert shard.values == {"a": 1}
    assert len(turns) <= 3


async def test_the_loop_runs_timers_by_itself(bench: Bench) -> None:
    ran = asyncio.Event()

    def operation(shard: Counters, now_ms: int) -> Write[None]:
        ran.set()
        return Write(None)

    bench.runtime.shard(0).timers.schedule("t", 0, operation)
    await asyncio.wait_for(ran.wait(), 5)


async def test_a_log_that_cannot_be_read_is_not_served(bench: Bench) -> None:
    bench.runtime.submit(0, increment, code)
    bench.log.damage(0)
    other = bench.new_runtime()
    other.load(0)
    await other.until_loaded()
    assert other.submit(0, increment, code) == ErrorCode.NOT_COORDINATOR
    other.close()


async def test_a_log_that_cannot_be_opened_now_is_loaded_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        bench.runtime.submit(0, increment, code)
    read = bench.log.read
    refusals = [NotReadableYet(), NotReadableYet()]

    def read_when_there_are_files(partition: int) -> Iterator[bytes | memoryview]:
        chunks = read(partition)
        yield next(chunks)
        if refusals:
            raise refusals.pop()
        yield from chunks

    monkeypatch.setattr(bench.log, "read", read_when_there_are_files)
    monkeypatch.setattr(runtime_module, "LOAD_RETRY_S", 0)
    other = bench.new_runtime()
    other.load(0)
    await other.until_loaded()
    assert other.query(0, lambda shard, _: dict(shard.values), code) == {"a": 2}
    other.close()


async def test_a_partition_whose_log_is_not_there_is_not_loading_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(partition: int) -> int:
        raise NotCoordinator()

    with monkeypatch.context() as patched:
        patched.setattr(bench.log, "log_end_offset", offline)
        with pytest.raises(NotCoordinator):
            bench.runtime.load(1)
    assert not bench.runtime.is_loading()
    bench.runtime.load(1)
    assert bench.runtime.active_partitions == [0, 1]


async def test_a_failing_timer_does_not_stop_the_others(bench: Bench) -> None:
    def broken(shard: Counters, now_ms: int) -> Write[None]:
        raise ZeroDivisionError

    shard = bench.runtime.shard(0)
    shard.timers.schedule("a", 10, broken)
    shard.timers.schedule("b", 20, increment)
    with pytest.raises(ZeroDivisionError):
        bench.advance(30)
    ran = asyncio.Event()
    shard.timers.schedule("c", 0, lambda _, now_ms: Write(None, then=lambda _: ran.set()))
    await asyncio.wait_for(ran.wait(), 5)
    assert shard.values == {"a": 1}


async def test_a_log_that_promises_nothing_is_not_waited_for_twice(bench: Bench) -> None:
    bench.log.hold = True
    waiting = bench.runtime.submit(0, increment, code)
    assert isinstance(waiting, Promise)
    bench.log.give_up()
    assert await waiting == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_leadership_lost_in_the_moment_of_a_load_is_no_defect(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.runtime.submit(0, increment, code)
    successor = bench.new_runtime()
    successor.load(0)

    def not_here(partition: int) -> int:
        raise NotCoordinator()

    monkeypatch.setattr(bench.log, "log_end_offset", not_here)
    (load,) = asyncio.all_tasks() - {asyncio.current_task()}
    await load
    with pytest.raises(CoordinatorError):
        successor.shard(0)
    successor.close()
