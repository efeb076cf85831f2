"""Compaction by itself: what stays, what goes, and when."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest

from floodmark.records.batch import HEADER_BYTES, BatchHeader
from floodmark.records.compression import Compression
from floodmark.records.errors import CorruptRecord
from floodmark.records.record import Record
from floodmark.storage.compaction.cleanable import examine
from floodmark.storage.compaction.compaction import CleanedGroup, compact
from floodmark.storage.compaction.key_offsets import KeyOffsets
from floodmark.storage.errors import OutOfOrderSequence
from floodmark.storage.files import File, RealFiles
from floodmark.storage.log.segment import Segment
from floodmark.storage.log_config import log_config_from
from floodmark.testing.memory_files import MemoryFiles
from kit.compaction import CompactionBench, swap

DAY_MS = 86_400_000


@pytest.fixture
def bench() -> CompactionBench:
    return CompactionBench(MemoryFiles(), Path("/logs"))


def test_the_last_value_of_each_key_stays_at_its_offset(bench: CompactionBench) -> None:
    for round_number in range(30):
        bench.put(("a", f"a{round_number}"), (f"only-{round_number}", "x"))
        bench.put(("b", f"b{round_number}"))
    bench.roll()
    table = bench.table()
    size_before = bench.log.size_bytes
    bench.clean()
    assert bench.table() == table
    assert bench.log.size_bytes < size_before
    assert [key for key, _ in bench.pairs()].count("a") == 1
    last = {record.key: record.offset for record in bench.records()}
    assert last[b"a"] == 29 * 3
    assert last[b"b"] == 29 * 3 + 2
    assert bench.log.log_end_offset == 90


def test_the_active_segment_is_left_alone(bench: CompactionBench) -> None:
    bench.put(("a", "1"))
    bench.roll()
    bench.put(("a", "2"), ("a", "3"))
    bench.clean()
    assert bench.pairs() == [("a", "1"), ("a", "2"), ("a", "3")]


def test_small_segments_are_put_together(bench: CompactionBench) -> None:
    for number in range(40):
        bench.put(("a" if number % 4 else f"k{number}", f"{number}"))
    bench.roll()
    table = bench.table()
    segments_before = len(bench.log.segments)
    bench.clean()
    assert len(bench.log.segments) == segments_before, "sizes are known only afterwards"
    bench.clean_offset = None
    bench.clean()
    assert len(bench.log.segments) < segments_before - 1
    assert all(s.size_bytes <= bench.config.segment_bytes for s in bench.log.segments)
    assert bench.table() == table


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batches_stay_compressed(bench: CompactionBench, codec: Compression) -> None:
    bench.put(("a", "1"), ("b", "1"), compression=codec)
    bench.put(("a", "2"), compression=codec)
    bench.roll()
    bench.clean()
    assert bench.pairs() == [("b", "1"), ("a", "2")]
    headers = [header for _, _, header in bench.log.batches(0, 3)]
    assert {header.compression for header in headers} == {codec}


def test_a_batch_beyond_the_limits_stays_as_it_is(
    bench: CompactionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is compacted only now may hold one; looking into it could take gigabytes."""
    bench.put(("a", "1"), ("b", "1"))
    bench.put(("a", "2"), ("a", "3"), ("a", "4"), compression=Compression.ZSTD)
    bench.put(("b", "2"))
    bench.roll()
    monkeypatch.setattr("floodmark.records.record.most_items", lambda size_bytes: 2)
    bench.clean()
    assert bench.pairs() == [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4"), ("b", "2")]


def test_a_tombstone_goes_when_its_delete_horizon_has_passed(bench: CompactionBench) -> None:
    bench.put(("a", "1"))
    bench.put(("a", None), ("b", "1"))
    bench.roll()
    bench.clean()
    assert bench.pairs() == [("a", None), ("b", "1")]
    bench.now_ms += DAY_MS - 1
    bench.clean_offset = None
    bench.clean()
    assert ("a", None) in bench.pairs(), "readers still have to see it"
    bench.now_ms += 1
    bench.clean_offset = None
    bench.clean()
    assert bench.pairs() == [("b", "1")]
    assert [record.timestamp for record in bench.records()] == [bench.now_ms - DAY_MS]


def test_keys_longer_than_a_hash_are_told_apart(bench: CompactionBench) -> None:
    long = "k" * 100
    bench.put((long + "1", "a"), (long + "2", "b"))
    bench.put((long + "1", "c"))
    bench.roll()
    bench.clean()
    assert bench.table() == {long + "2": "b", long + "1": "c"}
    assert len(bench.pairs()) == 2


def test_with_little_memory_it_takes_several_rounds(bench: CompactionBench) -> None:
    for number in range(60):
        bench.put((f"k{number % 20}", f"{number}"))
    bench.roll()
    table = bench.table()
    bench.dedupe_buffer_bytes = 2000
    rounds = 0
    while bench.clean_offset != bench.log.active.base_offset:
        bench.clean()
        rounds += 1
        assert bench.table() == table
    assert rounds > 1
    bench.dedupe_buffer_bytes = 1 << 20
    bench.clean_offset = None
    bench.clean()
    assert len(bench.pairs()) == 20


def test_aborted_records_go_and_their_marker_follows(bench: CompactionBench) -> None:
    zombie = (7, 0)
    bench.put(("a", "good"))
    bench.put(("a", "aborted"), producer=zombie, is_transactional=True)
    bench.end(zombie, committed=False)
    bench.put(("b", "1"), producer=(8, 0))
    bench.roll()
    bench.log.producers.entries.clear()
    bench.clean()
    assert bench.pairs() == [("a", "good"), ("b", "1")]
    assert control_offsets(bench) == [2], "a batch of it was there: the marker stays"
    bench.clean_offset = None
    bench.clean()
    assert control_offsets(bench) == [2], "now it has a delete horizon"
    bench.now_ms += DAY_MS
    bench.clean_offset = None
    bench.clean()
    assert control_offsets(bench) == []


def test_a_committed_transaction_of_a_producer_that_aborted_before_stays(
    bench: CompactionBench,
) -> None:
    producer = (7, 0)
    bench.put(("a", "aborted"), producer=producer, is_transactional=True)
    bench.end(producer, committed=False)
    bench.put(("a", "committed"), producer=producer, is_transactional=True)
    bench.end(producer, committed=True)
    bench.roll()
    for _ in range(3):
        bench.clean()
        assert bench.table()["a"] == "committed"
        bench.put(("other", "x"))
        bench.roll()


def test_an_abort_noted_while_the_disk_was_full_is_an_abort(
    bench: CompactionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(("a", "committed"))
    bench.put(("a", "aborted"), producer=(5, 0), is_transactional=True)
    bench.roll()
    files = bench.files
    real_open = files.open

    def refuse_index(path: Path, *, create: bool = True) -> File:
        if path.suffix == ".txnindex":
            raise OSError(errno.ENOSPC, "no space left on device", str(path))
        return real_open(path, create=create)

    with monkeypatch.context() as full_disk:
        full_disk.setattr(files, "open", refuse_index)
        bench.end((5, 0), committed=False)
    bench.clean()
    assert ("a", "committed") in bench.pairs()


def test_the_aborted_list_of_readers_survives(bench: CompactionBench) -> None:
    """A later segment's abort keeps what readers need to skip the batches that are left."""
    producer = (7, 0)
    bench.put(("a", "1"), ("b", "1"), producer=producer, is_transactional=True)
    bench.end(producer, committed=False)
    bench.roll()
    before = bench.log.aborted_transactions(0, bench.log.log_end_offset)
    assert len(before) == 1
    bench.clean()
    assert bench.log.aborted_transactions(0, bench.log.log_end_offset) == before


def test_an_open_transaction_holds_compaction_back(bench: CompactionBench) -> None:
    bench.put(("a", "1"))
    bench.roll()
    bench.put(("a", "2"), producer=(7, 0), is_transactional=True)
    bench.roll()
    bench.put(("a", "3"))
    bench.roll()
    found = examine(bench.log, bench.log.log_end_offset, None, bench.now_ms)
    assert [segment.base_offset for segment in found.segments] == [0]


def test_the_last_batch_of_a_producer_keeps_its_sequence(bench: CompactionBench) -> None:
    bench.put(("a", "1"), producer=(7, 3))
    bench.put(("a", "2"))
    bench.put(("b", "1"))
    bench.roll()
    bench.put(("z", "1"))
    bench.clean()
    assert bench.pairs() == [("a", "2"), ("b", "1"), ("z", "1")]
    bench.log.close(bench.now_ms)
    for name in bench.names():
        if name.endswith(".snapshot"):
            bench.files.remove(bench.directory / name)
    log = bench.open()
    assert log.producers.entries[7].last_sequence == 0
    assert log.producers.entries[7].producer_epoch == 3


def test_segments_follow_each_other_without_a_hole(bench: CompactionBench) -> None:
    for number in range(30):
        bench.put(("a", f"{number}"))
    bench.roll()
    bench.put(("z", "1"))
    bench.clean()
    segments = bench.log.segments
    for segment, following in pairwise(segments):
        assert segment.next_offset() == following.base_offset
    bench.log.close(bench.now_ms, clean=False)
    bench.log = bench.open(clean=False)
    assert bench.table() == {"a": "29", "z": "1"}
    assert bench.log.log_end_offset == 31


def test_reads_under_way_are_not_disturbed(bench: CompactionBench) -> None:
    for number in range(10):
        bench.put(("a", f"{number}"))
    bench.roll()
    before = bench.log.read(0, 1 << 20, end_offset=10)
    assert before is not None
    data = before.read()
    found = examine(bench.log, 10, None, bench.now_ms)
    groups: list[CleanedGroup] = []
    compact(bench.files, found.job(bench.now_ms, 1 << 20), groups.append, lambda size: None)
    assert before.read() == data
    for group in groups:
        swap(bench.files, bench.log, found.segments, group)
    after = bench.log.read(0, 1 << 20, end_offset=10)
    assert after is not None
    assert len(after.read()) < len(data)


def test_a_log_that_changed_meanwhile_is_not_swapped(bench: CompactionBench) -> None:
    for number in range(20):
        bench.put(("a", f"{number}"))
    bench.roll()
    found = examine(bench.log, 20, None, bench.now_ms)
    bench.log.retire(bench.log.detach_oldest(1, bench.now_ms)).remove()
    assert not bench.log.swap_in(found.segments[0], found.segments[:2])


def test_young_records_wait_and_old_ones_do_not(tmp_path: Path) -> None:
    bench = CompactionBench(
        RealFiles(),
        tmp_path,
        min_compaction_lag_ms=1000,
        max_compaction_lag_ms=5000,
        min_cleanable_dirty_ratio=0.99,
    )
    bench.put(("a", "1"))
    bench.roll()
    young = examine(bench.log, 1, None, bench.now_ms)
    assert young.segments == []
    ripe = examine(bench.log, 1, None, bench.now_ms + 1001)
    assert len(ripe.segments) == 1
    half_clean = examine(bench.log, 1, 1, bench.now_ms + 1001)
    assert not half_clean.is_due, "nothing is dirty"
    overdue = examine(bench.log, 1, None, bench.now_ms + 5001)
    assert overdue.is_overdue
    assert overdue.is_due


@pytest.mark.parametrize(("policy", "segments"), [("compact", 2), ("delete", 1)])
def test_the_active_segment_rolls_for_the_longest_compaction_lag(
    tmp_path: Path, policy: str, segments: int
) -> None:
    bench = CompactionBench(RealFiles(), tmp_path)
    bench.log.config = log_config_from({"cleanup.policy": policy, "max.compaction.lag.ms": "5000"})
    bench.put(("a", "1"))
    bench.now_ms += 5000
    bench.put(("a", "2"))
    assert len(bench.log.segments) == 1
    bench.now_ms += 1
    bench.put(("a", "3"))
    assert len(bench.log.segments) == segments


def test_a_log_is_due_by_its_dirty_share(tmp_path: Path) -> None:
    bench = CompactionBench(RealFiles(), tmp_path, min_cleanable_dirty_ratio=0.5)
    for number in range(3):
        bench.put((f"k{number}", "v"))
        bench.roll()
    end = bench.log.log_end_offset
    assert not examine(bench.log, end, 2, bench.now_ms).is_due
    assert examine(bench.log, end, 1, bench.now_ms).is_due
    assert examine(bench.log, end, 99, bench.now_ms).first_dirty_offset == 0


def test_a_flipped_bit_is_not_copied_under_a_fresh_checksum() -> None:
    files = MemoryFiles()
    bench = CompactionBench(files, Path("/logs"))
    bench.put(("a", "1"), ("b", "2"))
    bench.put(("a", "2"))
    bench.roll()
    files.flip_bit(bench.log.segments[0].path, HEADER_BYTES + 5)
    with pytest.raises(CorruptRecord):
        bench.clean()
    assert not any(name.endswith(".cleaned") for name in bench.names())


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    files = MemoryFiles()
    bench = CompactionBench(files, Path("/logs"))
    for number in range(10):
        bench.put((f"k{number % 3}", f"{number}"))
    bench.roll()
    before = bench.pairs()
    files.faults.space_bytes = 10
    with pytest.raises(OSError):
        bench.clean()
    files.faults.space_bytes = None
    assert bench.pairs() == before
    assert not any(name.endswith(".cleaned") for name in bench.names())
    bench.clean()
    assert len(bench.pairs()) == 3


def test_memory_for_keys_is_bounded() -> None:
    keys = KeyOffsets(limit_bytes=10_000)
    added = 0
    while not keys.is_full:
        keys.add([Record(added, 0, f"key-{added}".encode(), b"", [])], 0)
        added += 1
    assert 30 < added < 70


def control_offsets(bench: CompactionBench) -> list[int]:
    return [
        header.base_offset
        for _, _, header in bench.log.batches(0, bench.log.log_end_offset)
        if header.is_control and header.records_count
    ]


def test_an_expired_producer_goes_on_after_a_crash_though_its_batch_was_cleaned_away(
    bench: CompactionBench,
) -> None:
    """Its marker was not: who knows the producer from that alone would expect sequence 0."""
    producer = (1, 0)
    bench.put(("a", "1"), producer=producer, is_transactional=True)
    bench.end(producer, committed=True)
    crash_after_expiry_and_cleaning(bench)
    assert bench.pairs() == [("a", "2")]
    assert [header.is_control for _, _, header in bench.log.batches(0, 3)] == [True, False]
    bench.put(("a", "3"), producer=producer, is_transactional=True)


def test_an_expired_producer_goes_on_after_a_crash_though_only_an_old_batch_of_it_is_left(
    bench: CompactionBench,
) -> None:
    producer = (1, 0)
    bench.put(("b", "1"), producer=producer)
    bench.put(("a", "1"), producer=producer)
    crash_after_expiry_and_cleaning(bench)
    assert bench.pairs() == [("b", "1"), ("a", "2")]
    (first, *_) = bench.log.batches(0, 3)
    assert bench.log.append(*repeat(first), 0, bench.now_ms) is not None, "it is still a repeat"
    bench.put(("a", "3"), producer=producer)
    bench.skip_sequences(producer, 5)
    with pytest.raises(OutOfOrderSequence):
        bench.put(("a", "4"), producer=producer)


def crash_after_expiry_and_cleaning(bench: CompactionBench) -> None:
    bench.now_ms += bench.log.producers.expiration_ms
    restart(bench, clean=True)
    bench.put(("a", "2"))
    bench.roll()
    bench.clean()
    restart(bench, clean=False)


def repeat(stored: tuple[Segment, int, BatchHeader]) -> tuple[bytearray, BatchHeader]:
    segment, position, header = stored
    return bytearray(segment.file.pread(header.size_bytes, position)), header


def restart(bench: CompactionBench, *, clean: bool) -> None:
    bench.log.close(bench.now_ms, clean=clean)
    bench.log = bench.open(clean=clean)
