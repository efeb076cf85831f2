"""A producer's batch and the pending delivery of each record in it.

`partition_queue.py` keeps batches in order, `sender.py` sends them. No IO here, but deliveries can
be awaited.
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
from floodmark.vocabulary import NO_OFFSET

# Typical per-record overhead: length, attributes, time and offset deltas, lengths of key and
# value, and the number of headers.
RECORD_OVERHEAD_BYTES = 16
HEADER_OVERHEAD_BYTES = 10


class RecordMetadata(NamedTuple):
    """A record's position. The offset is -1 with acks=0, and for a duplicate that is too old."""

    topic: str
    partition: int
    offset: int
    timestamp: int


def record_size_bytes(key: bytes | None, value: bytes | None, headers: list[Header]) -> int:
    """The approximate uncompressed size of a record in a batch, rounded up."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name) + len(content or b"")
    return size


class ProducerBatch:
    """Open while it fills. Gets a sequence on the first send and keeps it across retries."""

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
        # The last failure, reported if the delivery times out.
        self.last_refusal: KafkaError | None = None
        self.base_offset = NO_OFFSET
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
        known = self.base_offset != NO_OFFSET
        timestamp = self._log_append_time_ms
        if timestamp < 0:
            timestamp = self.records[index].timestamp
        offset = self.base_offset + index if known else NO_OFFSET
        return RecordMetadata(*self.partition, offset, timestamp)

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Splits into two halves that replace this batch and inherit its sequences.

        This batch is done when both halves are. Each record gets the outcome of its half.
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
    """The pending delivery of one record: await it, add a callback, or ignore it."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.is_done

    def result(self) -> RecordMetadata:
        """The record's position, or raises the KafkaError of a failure. Only valid once `done`."""
        if not self._batch.is_done:
            raise asyncio.InvalidStateError("the delivery is not done yet")
        return self._batch.metadata(self._index)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Calls back from the event loop once the outcome is known."""
        # Through the loop, because a callback that raises must not stop the sender.
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
