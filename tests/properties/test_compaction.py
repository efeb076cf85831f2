"""Compaction of random histories, and power loss at every step of it.

Whatever was written, cleaned and lost: who reads the log keeping the last value of each key ends
with the same table, no aborted value comes back, and offsets do not change.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from floodmark.testing.memory_files import MemoryFiles
from kit.compaction import CompactionBench
from kit.seeds import seeds

LOGS = Path("/logs")
MOMENTS = 60
RETENTION_MS = 100
KEYS = st.sampled_from(["a", "b", "c", "d", "e" * 40])
VALUES = st.one_of(st.none(), st.integers(0, 99).map(str))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
PRODUCERS = st.sampled_from([1, 2])
STEPS = st.one_of(
    st.tuples(st.just("put"), PAIRS),
    st.tuples(st.just("idempotent"), PRODUCERS, PAIRS),
    st.tuples(st.just("transaction"), PRODUCERS, PAIRS, st.booleans()),
    st.tuples(st.just("begin"), PRODUCERS, PAIRS),
    st.tuples(st.just("end"), PRODUCERS, st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.sampled_from([600, 1 << 20])),
    st.tuples(st.just("wait"), st.sampled_from([1, 90_000_000])),
    st.tuples(st.just("restart"), st.booleans()),
)


class History:
    """What a reader of committed records has to find in the end."""

    def __init__(self) -> None:
        self.bench = CompactionBench(MemoryFiles(), LOGS)
        self.table: dict[str, tuple[int, str | None]] = {}
        self.open: dict[int, list[tuple[int, list[tuple[str, str | None]]]]] = {}

    def step(self, name: str, *arguments: object) -> None:
        getattr(self, "do_" + name)(*arguments)

    def note(self, base_offset: int, pairs: list[tuple[str, str | None]]) -> None:
        for offset, (key, value) in enumerate(pairs, base_offset):
            if self.table.get(key, (-1, None))[0] < offset:
                self.table[key] = (offset, value)

    def do_put(self, pairs: list[tuple[str, str | None]]) -> None:
        self.note(self.bench.put(*pairs), pairs)

    def do_idempotent(self, producer: int, pairs: list[tuple[str, str | None]]) -> None:
        if producer not in self.open:
            self.note(self.bench.put(*pairs, producer=(producer + 10, 0)), pairs)

    def do_begin(self, producer: int, pairs: list[tuple[str, str | None]]) -> None:
        offset = self.bench.put(*pairs, producer=(producer, 0), is_transactional=True)
        self.open.setdefault(producer, []).append((offset, pairs))

    def do_end(self, producer: int, committed: bool) -> None:
        written = self.open.pop(producer, None)
        if written is None:
            return
        self.bench.end((producer, 0), committed=committed)
        if committed:
            for offset, pairs in written:
                self.note(offset, pairs)

    def do_transaction(
        self, producer: int, pairs: list[tuple[str, str | None]], committed: bool
    ) -> None:
        self.do_begin(producer, pairs)
        self.do_end(producer, committed)

    def do_roll(self) -> None:
        self.bench.roll()

    def do_clean(self, memory_bytes: int) -> None:
        self.bench.dedupe_buffer_bytes = memory_bytes
        self.bench.clean()

    def do_wait(self, elapsed_ms: int) -> None:
        self.bench.now_ms += elapsed_ms

    def do_restart(self, clean: bool) -> None:
        self.bench.log.close(self.bench.now_ms, clean=clean)
        self.bench.log = self.bench.open(clean=clean, recovery_point=self.bench.log.recovery_point)

    def check(self) -> None:
        live = {key: value for key, (_, value) in self.table.items() if value is not None}
        assert committed_table(self.bench) == live


def committed_table(bench: CompactionBench) -> dict[str, str]:
    """As a read_committed reader builds it from the whole log."""
    log = bench.log
    stable_offset = log.last_stable_offset(log.log_end_offset)
    aborted = log.aborted_transactions(0, stable_offset)
    table: dict[str, str] = {}
    for record, producer_id, is_transactional in bench.records_with_producers():
        if record.offset >= stable_offset and is_transactional:
            continue
        if is_transactional and any(
            entry.producer_id == producer_id
            and entry.first_offset <= record.offset <= entry.last_offset
            for entry in aborted
        ):
            continue
        key = (record.key or b"").decode()
        if record.value is None:
            table.pop(key, None)
        else:
            table[key] = record.value.decode()
    return table


PUT = ("put", [("a", "1")])
EXPIRED_AND_CLEANED = [
    *[PUT] * 4,
    ("transaction", 1, [("a", "2")], True),
    ("wait", 90_000_000),
    PUT,
    ("restart", True),
    *[PUT] * 2,
    ("clean", 1 << 20),
    ("restart", False),
    PUT,
    ("transaction", 1, [("a", "3")], True),
]
"""A producer whose batch has expired and was cleaned away, known from its marker alone."""


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
@example(EXPIRED_AND_CLEANED)
def test_the_table_of_a_log_outlives_any_compaction(steps: list[tuple[object, ...]]) -> None:
    history = History()
    for step in steps:
        history.step(*step)  # type: ignore[arg-type]
    for producer in list(history.open):
        history.do_end(producer, committed=False)
    end_offset = history.bench.log.log_end_offset
    history.check()
    history.do_roll()
    for _ in range(2):
        history.do_clean(1 << 20)
        history.check()
    history.do_restart(clean=False)
    history.check()
    assert history.bench.log.log_end_offset == end_offset
    assert not history.bench.log.producers.ongoing


@pytest.mark.parametrize("seed", seeds(4))
def test_power_may_fail_at_any_step_of_a_compaction(seed: int) -> None:
    random = Random(seed)
    files = MemoryFiles()
    files.mkdir(LOGS)
    files.fsync_dir(LOGS.parent)
    bench = CompactionBench(files, LOGS)
    for number in range(60):
        if random.random() < 0.2:
            producer = (1, 0)
            bench.put(("t", f"{number}"), producer=producer, is_transactional=True)
            bench.end(producer, committed=random.random() < 0.5)
        else:
            bench.put((random.choice("abcdef"), random.choice([None, f"{number}"])))
    bench.roll()
    bench.log.fsync()
    table, end_offset = committed_table(bench), bench.log.log_end_offset
    first_operation = files.operations
    bench.clean()
    bench.clean_offset = None
    bench.clean()
    moments = range(first_operation, files.operations + 1)
    for moment in random.sample(moments, min(MOMENTS, len(moments))):
        survivor = reopened(bench, files.at(moment).crash(random), random)
        assert survivor.log.log_end_offset == end_offset, moment
        assert committed_table(survivor) == table, moment
        names = survivor.names()
        assert not any(name.endswith((".cleaned", ".swap")) for name in names)


@pytest.mark.parametrize("power_fails", [False, True], ids=["kill", "power"])
@pytest.mark.parametrize("seed", seeds(2))
def test_deleted_keys_stay_deleted_wherever_a_crash_cuts_compaction_off(
    seed: int, power_fails: bool
) -> None:
    """Three rounds remove values, give tombstones their horizon, and remove them. A kill at each
    step of that is followed by a kill or a power loss in the next round, which goes on from the
    clean offset that was noted last or from none, and by two whole rounds."""
    random = Random(seed)
    files = MemoryFiles()
    files.mkdir(LOGS)
    files.fsync_dir(LOGS.parent)
    bench = CompactionBench(files, LOGS, delete_retention_ms=RETENTION_MS)
    for number in range(40):
        bench.put((random.choice("abcdefghij"), random.choice([None, f"{number}"])))
    bench.roll()
    bench.log.fsync()
    table = bench.table()
    assert any(record.value is None for record in bench.records())
    crashes: list[tuple[int, int | None]] = []
    for _ in range(3):
        begin, clean_offset = files.operations, bench.clean_offset
        bench.clean()
        crashes += [(moment, clean_offset) for moment in range(begin, files.operations + 1)]
        bench.now_ms += RETENTION_MS + 1
    assert not any(record.value is None for record in bench.records())
    for moment, clean_offset in crashes:
        image = files.at(moment)
        survivor = reopened(bench, image, random)
        assert survivor.table() == table, moment
        survivor.clean_offset = random.choice([None, clean_offset])
        begin = image.operations
        survivor.clean()
        again = random.randint(begin, image.operations)
        image = image.at(again)
        survivor = reopened(survivor, image.crash(random) if power_fails else image, random)
        for _ in range(2):
            assert survivor.table() == table, (moment, again)
            survivor.clean()
            survivor.now_ms += RETENTION_MS + 1
        assert survivor.table() == table, (moment, again)


def reopened(bench: CompactionBench, files: MemoryFiles, random: Random) -> CompactionBench:
    """The same log after a crash that has left these files."""
    survivor = CompactionBench.__new__(CompactionBench)
    survivor.files, survivor.directory = files, bench.directory
    survivor.config, survivor.now_ms = bench.config, bench.now_ms
    survivor.dedupe_buffer_bytes, survivor.clean_offset = bench.dedupe_buffer_bytes, None
    recovery_point = random.choice([0, bench.log.log_end_offset])
    survivor.log = survivor.open(clean=False, recovery_point=recovery_point)
    return survivor
