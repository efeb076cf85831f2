"""Reads the last record of each key, and fetches only what is new since the last time.

Called by `source.py` for reads with `latestByKey`, which lookups use for every batch. A partition's
last records are kept in a file of the worker's machine, inside Spark's own temporary folder, with
the offset up to which they were read. Memory holds one partition's last records, and up to
MERGE_BYTES of newer ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles

from floodmark.client.offsets import OffsetSpec, offsets_or_raise
from floodmark.pipeline.datasource.connecting import open_cluster
from floodmark.pipeline.datasource.options import ReadOptions
from floodmark.pipeline.datasource.planning import OffsetRange
from floodmark.pipeline.datasource.reading import read_range

MERGE_BYTES = 64 * 1024 * 1024
ROWS_PER_BATCH = 65_536
_FOLDER = "floodmark-lookups"
_END = b"floodmark.end"


def read_latest(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The last record of each key of the partition, tombstones included."""
    store = _store(options, wanted)
    kept = None if store is None else store.load()
    if kept is not None and kept.end > wanted.end and not _still_ends_at(options, wanted, kept.end):
        kept = None
    kept = kept or Kept(None, wanted.start)
    if kept.end < wanted.end:
        kept = _brought_up_to_date(options, wanted, kept)
        if store is not None:
            store.save(kept)
    if kept.rows is not None:
        yield from _left(kept.rows, wanted.start).to_batches(max_chunksize=ROWS_PER_BATCH)


@dataclass(frozen=True)
class Kept:
    """The last records up to an offset. None if there are none."""

    rows: pa.Table | None
    end: int


def _brought_up_to_date(options: ReadOptions, wanted: OffsetRange, kept: Kept) -> Kept:
    rows = None if kept.rows is None else _left(kept.rows, wanted.start)
    fresh: list[pa.RecordBatch] = []
    fresh_bytes = 0
    for batch in read_range(options, replace(wanted, start=max(wanted.start, kept.end))):
        fresh.append(batch)
        fresh_bytes += batch.nbytes
        if fresh_bytes >= MERGE_BYTES:
            rows, fresh, fresh_bytes = merged(rows, fresh), [], 0
    return Kept(merged(rows, fresh), wanted.end)


def _left(rows: pa.Table, start: int) -> pa.Table:
    """Drops rows whose records have been deleted since, by retention or by hand."""
    return rows.filter(pc.field("offset") >= start)


def merged(rows: pa.Table | None, fresh: list[pa.RecordBatch]) -> pa.Table | None:
    """The last row of each key, by offset. A missing key counts as one."""
    tables = [] if rows is None else [rows]
    if fresh:
        tables.append(pa.Table.from_batches(fresh))
    if not tables:
        return None
    table = pa.concat_tables(tables)
    last = table.group_by("key").aggregate([("offset", "max")])["offset_max"]
    found: pa.Table = table.filter(pc.is_in(table["offset"], value_set=last.combine_chunks()))
    return found.combine_chunks()


def _still_ends_at(options: ReadOptions, wanted: OffsetRange, end: int) -> bool:
    """Whether the partition reaches so far.

    Another task may have read on since this read was planned. Otherwise the partition has lost
    records, and the kept ones mean nothing.
    """

    async def ask() -> bool:
        async with open_cluster(options.bootstrap_servers, options.client) as cluster:
            listed = await offsets_or_raise(
                cluster,
                {wanted.partition: int(OffsetSpec.LATEST)},
                read_committed=options.client.read_committed,
            )
            return listed[wanted.partition].offset >= end

    return asyncio.run(ask())


def _store(options: ReadOptions, wanted: OffsetRange) -> _Store | None:
    """Without an id, a recreated topic could not be told from the old one."""
    if wanted.topic_id is None or not options.ending.is_latest:
        return None
    identity = (
        options.bootstrap_servers,
        wanted.topic_id.hex,
        wanted.partition,
        options.starting,
        options.client.isolation_level,
        options.include_headers,
    )
    name = hashlib.sha256(repr(identity).encode()).hexdigest()[:32]
    return _Store(Path(SparkFiles.getRootDirectory()) / _FOLDER / f"{name}.arrow")


class _Store:
    """A file of last records, replaced as a whole. It can always be read again from the topic."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Kept | None:
        try:
            with pa.memory_map(str(self._path)) as file:
                table = pa.ipc.open_file(file).read_all()
        except (OSError, pa.ArrowInvalid):
            return None
        end = int((table.schema.metadata or {})[_END])
        return Kept(table, end)

    def save(self, kept: Kept) -> None:
        if kept.rows is None:
            return
        table = kept.rows.replace_schema_metadata({_END: str(kept.end).encode()})
        draft = self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with pa.ipc.new_file(str(draft), table.schema) as file:
                file.write_table(table)
            draft.replace(self._path)
        except OSError:
            # A full disk costs speed, not correctness.
            draft.unlink(missing_ok=True)
