"""Reads a partition batch by batch, checksums included, and looks offsets up by time."""

from __future__ import annotations

from typing import NamedTuple

from floodmark.client.cluster.connection import Connection
from floodmark.records.batch import crc_ok, iter_headers
from floodmark.records.record import Record, decode_records
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

LAST_FETCH_BY_NAME = 12
LATEST = -1
EARLIEST = -2


class LeaderMoved(AssertionError):
    """The broker no longer leads the partition."""


class TimeLookup(NamedTuple):
    offset: int
    timestamp_ms: int


class PartitionReader:
    def __init__(self, connection: Connection, topic: str, partition: int) -> None:
        self._connection = connection
        self._topic = topic
        self._partition = partition

    async def start_offset(self) -> int:
        return (await self.look_up_time(EARLIEST)).offset

    async def end_offset(self) -> int:
        return (await self.look_up_time(LATEST)).offset

    async def read(self, begin: int, end: int) -> list[Record]:
        """All records from `begin` up to `end`; the offsets of what comes must have no gap."""
        records: list[Record] = []
        offset = begin
        while offset < end:
            fetched = await self.fetch(offset)
            assert fetched, f"nothing at {offset} although the log ends at {end}"
            assert fetched[0].offset <= offset, f"{offset} is not there, but {fetched[0].offset} is"
            wanted = [record for record in fetched if record.offset >= offset]
            expected = range(offset, offset + len(wanted))
            assert [r.offset for r in wanted] == list(expected), f"offsets not dense at {offset}"
            records += wanted
            offset += len(wanted)
        return records[: end - begin]

    async def fetch(self, offset: int, max_bytes: int = 1_000_000) -> list[Record]:
        """The records of the whole batches that a fetch at this offset brings."""
        return (await self.fetch_batches(offset, max_bytes))[0]

    async def fetch_batches(
        self, offset: int, max_bytes: int = 1_000_000
    ) -> tuple[list[Record], int]:
        """The same, and the offset after the last batch: compaction leaves some without records."""
        partition = FetchPartition(
            partition=self._partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            topics=[FetchTopic(topic=self._topic, partitions=[partition])],
        )
        answer = await self._connection.request(request, max_version=LAST_FETCH_BY_NAME)
        result = answer.responses[0].partitions[0]
        _refuse(result.error_code)
        records: list[Record] = []
        next_offset = offset
        for position, header in iter_headers(result.records):
            assert crc_ok(result.records, position, header), f"bad checksum at {offset}"
            records += decode_records(result.records, position)
            next_offset = header.next_offset
        return records, next_offset

    async def look_up_time(self, timestamp_ms: int) -> TimeLookup:
        partition = ListOffsetsPartition(partition_index=self._partition, timestamp=timestamp_ms)
        request = ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=self._topic, partitions=[partition])]
        )
        answer = await self._connection.request(request)
        result = answer.topics[0].partitions[0]
        _refuse(result.error_code)
        return TimeLookup(result.offset, result.timestamp)


def _refuse(error_code: int) -> None:
    if error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        raise LeaderMoved
    assert error_code == ErrorCode.NONE, ErrorCode(error_code).name
