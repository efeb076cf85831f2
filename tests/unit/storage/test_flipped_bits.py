"""Any single bit of a batch that the disk changes while the broker is down: found, never served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from floodmark.records.batch import HEADER_BYTES, iter_headers, read_header
from floodmark.records.record import Record, encode_batch
from floodmark.storage import checkpoints
from floodmark.storage.files import RealFile, RealFiles
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.verification import DamagedBatch
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
LOG_DIR = Path("/logs")
FOLDER = LOG_DIR / "t-0"
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=250)
BATCHES = 24
PAYLOAD_SAMPLES = 20
READ_SIZES_BYTES = (1, 300, 100_000)


def open_manager(files: MemoryFiles) -> tuple[LogManager, PartitionLog]:
    manager = LogManager(files, [LOG_DIR], recovery_threads=1)
    manager.open_dirs()
    manager.load(manager.found_partitions(), lambda topic: CONFIG, NOW_MS)
    return manager, manager.get_or_create("t", 0, None, CONFIG, now_ms=NOW_MS)


class Disk:
    """Two segments of batches of one to three records in three leader epochs, and how the broker
    that wrote them ended."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.files = MemoryFiles()
        manager, log = open_manager(self.files)
        for number in range(BATCHES):
            count = 1 + number % 3
            records = [Record(0, NOW_MS + number, b"k", b"v" * 40, []) for _ in range(count)]
            batch = encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=number * 3)
            header = read_header(batch)
            log.append(batch, header._replace(producer_id=-1), number * 3 // BATCHES, NOW_MS)
        self.end_offset = log.log_end_offset
        if stop == "clean":
            manager.close(NOW_MS)
        elif stop == "killed after a flush":
            log.fsync()
            manager.checkpoint_recovery_points()
        self.segments = [segment.path for segment in log.segments]
        self.contents = dict(self.files.tree())
        self.batches = {
            header.base_offset: data[position : position + header.size_bytes]
            for path, data in self.contents.items()
            if path.suffix == ".log"
            for position, header in iter_headers(data)
        }

    def places(self) -> Iterator[tuple[Path, int, int]]:
        """The first, a middle and the last batch of the first and the last segment."""
        for path in (self.segments[0], self.segments[-1]):
            found = list(iter_headers(self.contents[path]))
            for position, header in (found[0], found[len(found) // 2], found[-1]):
                yield path, position, header.size_bytes

    def reopened(self, path: Path, position: int, bit: int) -> tuple[MemoryFiles, PartitionLog]:
        files = MemoryFiles()
        files.mkdir(FOLDER)
        for known, content in self.contents.items():
            files.open(known).append(content)
        files.flip_bit(path, position, bit)
        return files, open_manager(files)[1]


def read_as_a_client(log: PartitionLog, max_bytes: int) -> tuple[dict[int, bytes], set[int]]:
    """Every batch by its base offset, and the offsets that were refused: each is stepped over."""
    served: dict[int, bytes] = {}
    refused: set[int] = set()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            found = log.read(offset, max_bytes, end_offset=log.log_end_offset)
        except DamagedBatch:
            refused.add(offset)
            offset += 1
            continue
        assert found is not None, f"nothing at offset {offset}"
        data = found.read()
        for position, header in iter_headers(data):
            served[header.base_offset] = data[position : position + header.size_bytes]
            assert header.base_offset <= offset, "offsets were left out"
            offset = header.next_offset
    return served, refused


def check(disk: Disk, path: Path, position: int, bit: int, batch: tuple[int, int]) -> None:
    _, log = disk.reopened(path, position, bit)
    damaged = read_header(disk.contents[path], batch[0])
    served, refused = read_as_a_client(log, READ_SIZES_BYTES[position % len(READ_SIZES_BYTES)])
    assert served.items() <= disk.batches.items(), "something else than was written"
    assert damaged.base_offset not in served
    before = {base for base in disk.batches if base < damaged.base_offset}
    assert before <= served.keys(), "the good batches before it are not served"
    if disk.stop == "killed":
        # Nothing was promised to be on the disk: the log is cut, as after a torn write.
        assert log.log_end_offset in (damaged.base_offset, disk.end_offset)
    else:
        lost = set(disk.batches) - served.keys()
        assert log.log_end_offset == disk.end_offset
        # A changed length hides what follows up to the next entry of the index.
        assert lost == {damaged.base_offset} or 8 <= position - batch[0] < 12
        assert damaged.base_offset in refused


@pytest.mark.parametrize("stop", ["clean", "killed after a flush", "killed"])
def test_every_bit_of_a_header_is_found(stop: str) -> None:
    disk = Disk(stop)
    assert len(disk.segments) >= 2
    for number, (path, start, size_bytes) in enumerate(disk.places()):
        # All bits of the middle ones, some of the others.
        bits = range(8) if number % 3 == 1 else (0, 3, 7)
        for inside in range(HEADER_BYTES):
            for bit in bits:
                check(disk, path, start + inside, bit, (start, size_bytes))


@pytest.mark.parametrize("stop", ["clean", "killed after a flush", "killed"])
def test_a_bit_of_the_records_is_found(stop: str) -> None:
    disk = Disk(stop)
    random = Random(stop)
    for path, start, size_bytes in disk.places():
        for _ in range(PAYLOAD_SAMPLES):
            position = start + random.randrange(HEADER_BYTES, size_bytes)
            check(disk, path, position, random.randrange(8), (start, size_bytes))


@pytest.mark.parametrize("stop", ["clean", "killed after a flush", "killed"])
def test_a_bit_of_an_index_leads_nobody_astray(stop: str) -> None:
    disk = Disk(stop)
    for path in (disk.segments[0], disk.segments[-1]):
        index = path.with_suffix(".index")
        for position in range(len(disk.contents[index])):
            for bit in range(0, 8, 2):
                _, log = disk.reopened(index, position, bit)
                for offset in reversed(range(disk.end_offset)):
                    found = log.read(offset, 1, end_offset=disk.end_offset)
                    assert found is not None
                    header = read_header(found.read())
                    assert header.base_offset <= offset <= header.last_offset
                assert read_as_a_client(log, 500) == (disk.batches, set())


def test_records_go_on_behind_a_damaged_end() -> None:
    disk = Disk("clean")
    path, start, _ = list(disk.places())[-1]
    files, log = disk.reopened(path, start + HEADER_BYTES, 3)
    batch = encode_batch([Record(0, NOW_MS, b"k", b"new", [])])
    assert log.log_end_offset == disk.end_offset
    assert log.append(batch, read_header(batch), 3, NOW_MS) is None
    served, refused = read_as_a_client(log, 1000)
    assert disk.end_offset in served
    assert refused == set(range(max(disk.batches), disk.end_offset))
    assert log.damaged_batches == 1
    assert files.read_file(path)[:start] == disk.contents[path][:start]


def test_damage_below_the_recovery_point_is_told_with_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk("clean")
    path, start, _ = list(disk.places())[1]
    damaged = read_header(disk.contents[path], start)
    _, log = disk.reopened(path, start + HEADER_BYTES, 0)
    with pytest.raises(DamagedBatch) as problem:
        log.read(damaged.last_offset, 100, end_offset=log.log_end_offset)
    for part in (str(path), f"position {start}", f"offset {damaged.base_offset}"):
        assert part in str(problem.value)
    assert f"continue at offset {damaged.next_offset}" in str(problem.value)


def test_a_log_with_holes_of_compaction_is_read_as_it_is() -> None:
    files = MemoryFiles()
    manager, _ = open_manager(files)
    manager.close(NOW_MS)
    kept = [(0, 2), (7, 9), (30, 30), (31, 40)]
    data = b""
    for first, last in kept:
        records = [Record(first, NOW_MS, b"k", b"v", [])]
        data += encode_batch(
            records, base_offset=first, keep_offsets=True, last_offset=last, leader_epoch=0
        )
    files.open(FOLDER / "00000000000000000000.log").append(data)
    path = LOG_DIR / checkpoints.RECOVERY_POINTS
    checkpoints.write_offsets(files, path, {("t", 0): 41})
    _, log = open_manager(files)
    assert log.log_end_offset == 41
    found = log.read(3, 1000, end_offset=41)
    assert found is not None
    assert [header.base_offset for _, header in iter_headers(found.read())] == [7, 30, 31]


def test_the_end_of_what_may_be_read_lies_within_damage() -> None:
    disk = Disk("clean")
    path, start, _ = list(disk.places())[-2]
    damaged = read_header(disk.contents[path], start)
    _, log = disk.reopened(path, start + HEADER_BYTES, 3)
    for _ in range(2):
        found = log.read(damaged.base_offset - 1, 10_000, end_offset=damaged.next_offset)
        assert found is not None
        headers = [header for _, header in iter_headers(found.read())]
        assert headers[-1].next_offset == damaged.base_offset
        with pytest.raises(DamagedBatch):
            log.read(damaged.base_offset, 10_000, end_offset=damaged.next_offset)


def test_a_wrong_length_costs_little_memory_and_time_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, files = tmp_path / "t-0", RealFiles()
    log = PartitionLog.open(files, folder, LogConfig(), now_ms=NOW_MS)
    for _ in range(20):
        batch = encode_batch([Record(0, NOW_MS, b"k", bytes(1 << 20), [])])
        log.append(batch, read_header(batch), 0, NOW_MS)
    log.close(NOW_MS)
    with log.active.path.open("r+b") as file:
        file.seek(8)
        file.write((17 << 20).to_bytes(4, "big"))
    log = PartitionLog.open(files, folder, LogConfig(), now_ms=NOW_MS, recovery_point=20)
    sizes_read: list[int] = []
    pread = RealFile.pread

    def noting_size(self: RealFile, size: int, position: int) -> bytes:
        sizes_read.append(size)
        return pread(self, size, position)

    monkeypatch.setattr(RealFile, "pread", noting_size)
    looks: list[list[int]] = []
    for _ in range(2):
        sizes_read.clear()
        with pytest.raises(DamagedBatch) as caught:
            log.read(0, 1000, end_offset=20)
        assert caught.value.after is not None
        looks.append(sizes_read.copy())
    first, second = looks
    assert sum(first) > 17 << 20
    assert max(first) < 2 << 20
    assert sum(second) < 1 << 20, "what is known is looked for again"
    log.close(NOW_MS)
