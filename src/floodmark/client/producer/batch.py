"""A batch that a producer fills, sends and waits for, and the promise made for each record in it.

`partition_queue.py` keeps batches in order, `sender.py` sends them. Nothing here does IO, but a
delivery can be awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

from floodmark.client.cluster.view import TopicPartition
from floodmark.client.errors import KafkaError
from floodmark.records.batch import HEADER_BYTES, add_sequence
from floodmark.records.record import Header, Record

# Length, attributes, time and offset deltas, lengths of key and value, number of headers: what a
# record of usual size takes beside its bytes.
RECORD_OVERHEAD_BYTES = 16
HEADER_OVERHEAD_BYTES = 10
UNKNOWN_OFFSET = -1


class RecordMetadata(NamedTuple):
    """Where a record went; the offset is -1 with acks=0, and for a repeat that is too old."""

    topic: str
    partition: int
    offset: int
    timestamp: int


def record_size_bytes(key: bytes | None, value: bytes | None, headers: list[Header]) -> int:
    """About what a record takes in a batch before compression, rather more than less."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name) + len(content or b"")
    return size


class ProducerBatch:
    """Open while it is filled; it gets a sequence when it is sent, and keeps it over retries."""

    __slots__ = (
        "_callbacks",
        "_halves",
        "_log_append_time_ms",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "encoded",
        "error",
        "is_done",
        "last_refusal",
        "partition",
        "records",
        "retry_at_ms",
        "size_bytes",
    )

    def __init__(self, partition: TopicPartition, created_ms: float) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.records: list[Record] = []
        self.size_bytes = HEADER_BYTES
        self.base_sequence: int | None = None
        self.encoded: bytearray | None = None
        self.attempts = 0
        self.retry_at_ms = 0.0
        self.is_done = False
        self.error: KafkaError | None = None
        # Why the last attempt failed, for those who are told that there was no time for more.
        self.last_refusal: KafkaError | None = None
        self.base_offset = UNKNOWN_OFFSET
        self._log_append_time_ms = -1
        self._callbacks: list[Callable[[], object]] = []
        self._halves: tuple[ProducerBatch, ProducerBatch] | None = None

    def add(self, record: Record, size_bytes: int) -> Delivery:
        self.records.append(record)
        self.size_bytes += size_bytes
        return Delivery(self, len(self.records) - 1)

    def succeed(self, base_offset: int, log_append_time_ms: int = -1) -> None:
        self.base_offset = base_offset
        self._log_append_time_ms = log_append_time_ms
        self._finish()

    def fail(self, error: KafkaError) -> None:
        self.error = error
        self._finish()

    def on_done(self, callback: Callable[[], object]) -> None:
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def metadata(self, index: int) -> RecordMetadata:
        if self._halves is not None:
            first, second = self._halves
            begin = len(first.records)
            return first.metadata(index) if index < begin else second.metadata(index - begin)
        if self.error is not None:
            raise self.error
        known = self.base_offset != UNKNOWN_OFFSET
        timestamp = self._log_append_time_ms
        if timestamp < 0:
            timestamp = self.records[index].timestamp
        offset = self.base_offset + index if known else UNKNOWN_OFFSET
        return RecordMetadata(*self.partition, offset, timestamp)

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Two halves that together take this batch's place and, if it had one, its sequences.

        This batch is done when both are; each record ends as its half does.
        """
        middle = len(self.records) // 2
        first = ProducerBatch(self.partition, self.created_ms)
        second = ProducerBatch(self.partition, self.created_ms)
        first.records, second.records = self.records[:middle], self.records[middle:]
        for half in (first, second):
            half.size_bytes = HEADER_BYTES + sum(
                record_size_bytes(r.key, r.value, r.headers) for r in half.records
            )
        if self.base_sequence is not None:
            first.base_sequence = self.base_sequence
            second.base_sequence = add_sequence(self.base_sequence, middle)
        self._halves = first, second
        first.on_done(self._half_done)
        second.on_done(self._half_done)
        return first, second

    def _half_done(self) -> None:
        if self._halves is not None and all(half.is_done for half in self._halves):
            self._finish()

    def _finish(self) -> None:
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Delivery:
    """The promise for one record: await it, or give it a callback, or ignore it."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.is_done

    def result(self) -> RecordMetadata:
        """Where the record went, or the KafkaError why it did not; only when `done`."""
        if not self._batch.is_done:
            raise asyncio.InvalidStateError("the record is still on its way")
        return self._batch.metadata(self._index)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Called by the event loop when the outcome is known, soon if it already is."""
        # By way of the loop, so that a callback that raises does not stop the sender.
        loop = asyncio.get_running_loop()
        self._batch.on_done(lambda: loop.call_soon(callback, self))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            future = asyncio.get_running_loop().create_future()
            self._batch.on_done(partial(_resolve, future))
            yield from future
        return self.result()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
