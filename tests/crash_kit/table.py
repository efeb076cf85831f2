"""A compacted topic as a table: a load that changes it through crashes, and a reader of its state.

Called by tests/crash/test_compaction.py. Batches go out one after the other, and again when their
answer is lost: a repeat at the end of the log leaves every key's last value as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from random import Random

from crash_kit.reader import PartitionReader
from floodmark.client.cluster.connection import Connection
from floodmark.client.errors import KafkaError
from floodmark.records.record import Record, encode_batch
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

RECORDS_PER_BATCH = 100
TOMBSTONE_SHARE = 0.1
RETRY_S = 0.01
MOST_READS = 100
LAST_BY_NAME = 12
RETRIABLE = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

Rows = dict[bytes, bytes]


class Table:
    """What the topic's one partition must amount to, and the way to change it."""

    def __init__(self, port: int, topic: str, keys: int, random: Random) -> None:
        self.rows: Rows = {}
        self._port = port
        self._topic = topic
        self._keys = [b"key-%06d" % number for number in range(keys)]
        self._random = random
        self._written = 0

    async def change(self, records: int) -> None:
        """Write so many records, whatever becomes of the broker meanwhile."""
        connection: Connection | None = None
        try:
            for _ in range(records // RECORDS_PER_BATCH):
                batch = self._next_batch()
                while connection is None or not await self._appended(connection, batch):
                    connection = await self._reconnected(connection)
        finally:
            if connection is not None:
                await connection.close()

    def _next_batch(self) -> bytearray:
        now_ms = int(time.time() * 1000)
        random = self._random
        records = []
        for key in random.choices(self._keys, k=RECORDS_PER_BATCH):
            self._written += 1
            value = None
            if random.random() < TOMBSTONE_SHARE:
                self.rows.pop(key, None)
            else:
                value = self.rows[key] = b"%s has value %d" % (key, self._written)
            records.append(Record(0, now_ms, key, value, []))
        return encode_batch(records)

    async def _appended(self, connection: Connection, batch: bytearray) -> bool:
        partition = PartitionProduceData(index=0, records=bytes(batch))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[partition])],
        )
        try:
            answer = await connection.request(request, max_version=LAST_BY_NAME)
        except KafkaError:
            return False
        error_code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        assert error_code is ErrorCode.NONE or error_code in RETRIABLE, error_code.name
        return error_code is ErrorCode.NONE

    async def _reconnected(self, old: Connection | None) -> Connection:
        if old is not None:
            await old.close()
        while True:
            try:
                return await Connection.open("127.0.0.1", self._port)
            except KafkaError:
                await asyncio.sleep(RETRY_S)


async def read_table(reader: PartitionReader) -> tuple[Rows, int]:
    """The last value of every key, and in how many records the log has that."""
    rows: Rows = {}
    count, offset, end = 0, await reader.start_offset(), await reader.end_offset()
    while offset < end:
        fetched, next_offset = await reader.fetch_batches(offset)
        assert next_offset > offset, f"nothing at {offset} although the log ends at {end}"
        records = [record for record in fetched if record.offset >= offset]
        offset = next_offset
        count += len(records)
        for record in records:
            assert record.key is not None
            if record.value is None:
                rows.pop(record.key, None)
            else:
                rows[record.key] = record.value
    return rows, count


async def read_undisturbed(
    read: Callable[[], Awaitable[Rows]], files_now: Callable[[], Hashable]
) -> Rows:
    """Read the table until no segment was replaced meanwhile; only such a reading tells whether a
    deleted key is back.

    A reader that has passed a value when one compaction removes it, and reaches the place of the
    tombstone after another has removed that, ends with the value. Kafka allows it: a reader is sure
    to see the tombstone only if it gets there within `delete.retention.ms`, here 100 ms.
    """
    for _ in range(MOST_READS):
        before = files_now()
        rows = await read()
        if files_now() == before:
            return rows
    raise AssertionError(f"segments were replaced during each of {MOST_READS} readings")


def segment_files(directory: Path) -> Hashable:
    """Which log files stand in the folder: a compacted segment has the name of an old one, but
    another inode and time."""
    found = set()
    for entry in os.scandir(directory):
        if entry.name.endswith(".log"):
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat()
                found.add((entry.name, status.st_ino, status.st_mtime_ns))
    return frozenset(found)
