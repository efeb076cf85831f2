"""Writes the rows of one Spark task to topics.

Called by `task_writes.py`. A task runs its own event loop. While one request is in flight, the next
rows are encoded. Memory holds one Arrow batch and its encoded form.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.cluster.view import ClusterView, TopicPartition
from floodmark.client.errors import KafkaError, UnknownTopic
from floodmark.clock import SystemClock
from floodmark.pipeline.datasource.encoding import (
    Piece,
    Rows,
    cut_by_size,
    encode_pieces,
    header_bytes,
    row_ends,
)
from floodmark.pipeline.datasource.options import WriteOptions
from floodmark.pipeline.datasource.partitioning import Ints, partitions_of_keys, spread
from floodmark.pipeline.datasource.sending import BatchSender
from floodmark.pipeline.errors import PipelineError
from floodmark.records.compression import Compression

# Encoded rows wait for acknowledgement while the next ones are encoded: twice this much.
PORTION_BYTES = 64 * 1024 * 1024


class TaskWriter:
    """Encodes and sends. `flush` waits for requests in flight."""

    def __init__(
        self, cluster: Cluster, sender: BatchSender, options: WriteOptions, task: int
    ) -> None:
        self._cluster = cluster
        self._sender = sender
        self._options = options
        self._turn = task
        self._pending: asyncio.Task[None] | None = None
        self._compression = Compression[options.client.compression_type.upper()]
        self._clock = SystemClock()

    async def write(self, batch: pa.RecordBatch) -> None:
        for portion in portions(batch):
            queues = await self._encode_all(portion)
            await self.flush()
            self._pending = asyncio.create_task(self._send_all(queues))
            # Yield once, to send the first request before more rows are encoded.
            await asyncio.sleep(0)

    async def flush(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            await pending

    async def settle(self) -> None:
        """Waits for requests in flight whatever becomes of them, for a task that has failed.

        A request that arrives after the transaction's end would not belong to any.
        """
        if self._pending is not None:
            pending, self._pending = self._pending, None
            await asyncio.gather(pending, return_exceptions=True)

    async def _send_all(self, queues: dict[TopicPartition, deque[bytearray]]) -> None:
        while queues:
            await self._sender.send({p: queue.popleft() for p, queue in queues.items()})
            queues = {p: queue for p, queue in queues.items() if queue}

    async def _encode_all(self, batch: pa.RecordBatch) -> dict[TopicPartition, deque[bytearray]]:
        queues: dict[TopicPartition, deque[bytearray]] = defaultdict(deque)
        now_ms = self._clock.now_ms()
        for topic, share in split_by_topic(batch, self._options.topic):
            view = await self._topic_view(topic)
            columns = rows_of(share)
            targets = self._targets(share, columns, topic, len(view.topics[topic].partitions))
            rows, runs = by_partition(columns, targets)
            owners, pieces = self._cut(topic, rows, runs)
            batches = encode_pieces(
                rows,
                pieces,
                timestamp_ms=now_ms,
                stamp=self._sender.stamp,
                compression=self._compression,
            )
            for partition, encoded in zip(owners, batches, strict=True):
                queues[partition].append(encoded)
        return queues

    def _cut(
        self, topic: str, rows: Rows, runs: Sequence[Run]
    ) -> tuple[list[TopicPartition], list[Piece]]:
        """The batches to build, and the partition of each."""
        ends = row_ends(rows)
        owners, pieces = [], []
        for run in runs:
            partition = TopicPartition(topic, run.partition)
            for start, end in cut_by_size(
                ends, run.start, run.end, self._options.client.batch_size
            ):
                sequence = self._sender.take_sequence(partition, end - start)
                owners.append(partition)
                pieces.append(Piece(start, end, sequence))
        return owners, pieces

    async def _topic_view(self, topic: str) -> ClusterView:
        try:
            return await self._cluster.topics_of(
                [topic], timeout_ms=self._options.client.max_block_ms
            )
        except KafkaError as error:
            if not isinstance(error.reason, UnknownTopic):
                raise
            raise PipelineError(
                f"the topic {topic} to write to does not exist and the broker does not create it: "
                f"create it with `floodmark topic create {topic}`"
            ) from error

    def _targets(self, share: pa.RecordBatch, rows: Rows, topic: str, count: int) -> Ints:
        """By the partition column, otherwise by the key, otherwise one partition after another."""
        targets = spread(rows.count, count, self._turn)
        self._turn += 1
        if rows.has_keys:
            has_key = np.asarray(rows.keys.is_valid())
            targets = np.where(has_key, partitions_of_keys(rows.keys, count), targets)
        if "partition" in share.schema.names:
            chosen = share.column("partition")
            is_given = np.asarray(chosen.is_valid())
            given = np.asarray(pc.fill_null(chosen, 0)).astype(np.int64)
            wrong = given[(given < 0) | (given >= count)]
            if wrong.size:
                raise PipelineError(
                    f"a row wants partition {int(wrong[0])} of {topic}, which has partitions 0 to "
                    f"{count - 1}: correct the column partition, or leave it null"
                )
            targets = np.where(is_given, given, targets)
        return targets


def portions(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in parts of bounded size, which also respects Arrow's 32-bit offsets."""
    if batch.nbytes <= PORTION_BYTES or batch.num_rows <= 1:
        if batch.num_rows:
            yield batch
        return
    half = batch.num_rows // 2
    yield from portions(batch.slice(0, half))
    yield from portions(batch.slice(half))


def split_by_topic(
    batch: pa.RecordBatch, topic: str | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic. As in the connector, the option overrides the column."""
    if topic is not None:
        yield topic, batch
        return
    column = batch.column("topic")
    if column.null_count:
        raise PipelineError("a row has no topic: fill the column topic, or set the option topic")
    for name in pc.unique(column).to_pylist():
        yield name, batch.filter(pc.equal(column, name))


def rows_of(batch: pa.RecordBatch) -> Rows:
    names = batch.schema.names
    values = as_binary(batch.column("value"))
    keys = (
        as_binary(batch.column("key")) if "key" in names else pa.nulls(batch.num_rows, pa.binary())
    )
    headers = header_bytes(batch.column("headers")) if "headers" in names else None
    return Rows(keys, values, headers)


def as_binary(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


class Run(NamedTuple):
    """Consecutive rows that go to one partition."""

    partition: int
    start: int
    end: int


def by_partition(rows: Rows, targets: Ints) -> tuple[Rows, list[Run]]:
    """Orders rows so that those of a partition are consecutive, in their original order."""
    changes = np.flatnonzero(np.diff(targets))
    # Rows without a key already come in such runs.
    if len(changes) >= len(np.unique(targets)):
        order = np.argsort(targets, kind="stable")
        rows, targets = rows.take(order), targets[order]
        changes = np.flatnonzero(np.diff(targets))
    bounds = [0, *(changes + 1).tolist(), len(targets)]
    return rows, [Run(int(targets[start]), start, end) for start, end in pairwise(bounds)]
