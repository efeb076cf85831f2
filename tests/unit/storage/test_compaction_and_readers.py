"""A reader that compaction overtakes, and the crash tests' way to tell that from a defect."""

import asyncio
from pathlib import Path

from crash_kit.table import Rows, read_undisturbed
from floodmark.testing.memory_files import MemoryFiles
from kit.compaction import CompactionBench

RETENTION_MS = 100
DELETED = "deleted"


class OvertakenReader:
    """Reads a table record by record; while it is in the middle for the first time, two rounds of
    compaction go by: one removes a value, the next its tombstone."""

    def __init__(self) -> None:
        self.bench = CompactionBench(
            MemoryFiles(), Path("/logs"), delete_retention_ms=RETENTION_MS, segment_bytes=200
        )
        self.bench.put((DELETED, "old"))
        self.bench.put(("other", "1"))
        self.bench.roll()
        self.bench.put((DELETED, None))
        self.bench.roll()
        self.bench.put(("other", "2"))
        self.bench.roll()
        self.rounds = 0

    async def read(self) -> Rows:
        rows: Rows = {}
        offset = 0
        while offset < self.bench.log.log_end_offset:
            record = next((r for r in self.bench.records() if r.offset >= offset), None)
            if record is None:
                break
            assert record.key is not None
            if record.value is None:
                rows.pop(record.key, None)
            else:
                rows[record.key] = record.value
            offset = record.offset + 1
            if not self.rounds:
                self.compact_twice()
        return rows

    def compact_twice(self) -> None:
        for _ in range(2):
            self.rounds += 1
            self.bench.clean()
            self.bench.now_ms += RETENTION_MS + 1


def test_a_reader_slower_than_delete_retention_may_see_a_deleted_key() -> None:
    """As in Kafka: nothing is wrong with the log."""
    reader = OvertakenReader()
    assert asyncio.run(reader.read()) == {DELETED.encode(): b"old", b"other": b"2"}
    assert DELETED not in reader.bench.table()


def test_a_reading_that_compaction_has_overtaken_is_repeated() -> None:
    reader = OvertakenReader()
    rows = asyncio.run(read_undisturbed(reader.read, lambda: reader.rounds))
    assert rows == {b"other": b"2"}
