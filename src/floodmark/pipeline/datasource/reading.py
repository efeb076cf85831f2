"""Reads one range of offsets as Arrow batches, inside a Spark task.

Called by the readers in `source.py`. A task runs its own event loop. It holds one fetched response
at a time while the next one is already requested, so the fetch size bounds its memory, however long
the partition is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import UUID

import pyarrow as pa

from floodmark.client.cluster.cluster import Cluster
from floodmark.client.consumer.fetch_requests import PartitionAnswer, fetch
from floodmark.client.errors import KafkaError
from floodmark.client.offsets import OffsetSpec, offsets_or_raise
from floodmark.clock import SystemClock
from floodmark.pipeline.datasource.columns import Packed, RowBuilder, unpack
from floodmark.pipeline.datasource.options import ReadOptions
from floodmark.pipeline.datasource.planning import OffsetRange
from floodmark.pipeline.datasource.visible_batches import VisibleBatches
from floodmark.pipeline.errors import DataLossError, PipelineError, offsets_lost
from floodmark.records.errors import CorruptRecord
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import ZERO_UUID

# Compressed responses expand to many times their size: rows are emitted in pieces of this size.
PIECE_BYTES = 16 * 1024 * 1024
# A throttling broker also sends empty responses. Only several of them mean a gap to the end.
EMPTY_ANSWERS_OF_A_GAP = 3


def read_range(options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    loop = asyncio.new_event_loop()
    try:
        yield from _RangeReader(loop, options, wanted).batches()
    finally:
        loop.close()


class _RangeReader:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, options: ReadOptions, wanted: OffsetRange
    ) -> None:
        self._loop = loop
        self._options = options
        self._wanted = wanted
        self._position = wanted.start
        # Nothing below is read, even if a batch starts before: deleted records stay deleted.
        self._first = wanted.start
        self._empty_answers = 0
        self._empty_since_ms = 0.0
        self._clock = SystemClock()
        self._builder = RowBuilder(*wanted.partition, include_headers=options.include_headers)

    def batches(self) -> Iterator[pa.RecordBatch]:
        cluster = self._loop.run_until_complete(self._open())
        pending: asyncio.Task[PartitionAnswer] | None = None
        try:
            while self._position < self._wanted.end:
                pending = pending or self._ask(cluster)
                answer = self._loop.run_until_complete(pending)
                pending = None
                if answer.error is not None:
                    self._loop.run_until_complete(self._skip_what_is_gone(cluster))
                    continue
                found = self._visible(answer)
                if self._position < self._wanted.end and not self._empty_answers:
                    pending = self._ask(cluster)
                yield from self._rows(found)
        finally:
            if pending is not None:
                pending.cancel()
                self._loop.run_until_complete(asyncio.gather(pending, return_exceptions=True))
            self._loop.run_until_complete(cluster.close())

    async def _open(self) -> Cluster:
        # Created inside the loop, because its locks belong to it.
        return Cluster(self._options.bootstrap_servers, self._options.client)

    def _ask(self, cluster: Cluster) -> asyncio.Task[PartitionAnswer]:
        """Sends the next fetch, so that the broker works while we decode."""
        task = self._loop.create_task(
            fetch_one(cluster, self._wanted, self._position, self._options)
        )
        self._loop.run_until_complete(asyncio.sleep(0))
        return task

    def _visible(self, answer: PartitionAnswer) -> VisibleBatches:
        """The response's visible batches. Moves the position after it."""
        start = self._position
        aborted = answer.aborted if self._options.client.read_committed else ()
        found = VisibleBatches(
            answer.records, start, aborted=aborted, check_crcs=self._options.client.check_crcs
        )
        self._position = found.next_position
        if self._position > start:
            self._empty_answers = 0
            return found
        self._empty_answers += 1
        self._check_empty(answer)
        return found

    def _check_empty(self, answer: PartitionAnswer) -> None:
        committed = self._options.client.read_committed
        readable = answer.last_stable_offset if committed else answer.high_watermark
        now_ms = self._clock.monotonic_ms()
        if self._empty_answers == 1:
            self._empty_since_ms = now_ms
        if self._empty_answers < EMPTY_ANSWERS_OF_A_GAP:
            return
        if readable >= self._wanted.end:
            # Compaction removed the rest of the range.
            self._position = self._wanted.end
        elif now_ms - self._empty_since_ms > self._options.client.default_api_timeout_ms:
            self._give_up(answer, readable)

    def _give_up(self, answer: PartitionAnswer, readable: int) -> None:
        if answer.high_watermark >= self._wanted.end:
            # Not lost, so failOnDataLoss does not apply.
            raise PipelineError(
                f"offsets {self._position} to {self._wanted.end - 1} of {self._wanted.partition} "
                f"cannot be read yet: a transaction that began at {readable} is still open. Wait "
                "for its end, or set kafka.isolation.level to read_uncommitted"
            )
        self._lost(f"its end went back to {readable}")
        self._position = self._wanted.end

    async def _skip_what_is_gone(self, cluster: Cluster) -> None:
        """The position is out of range, but the response does not say which range is valid."""
        partition = self._wanted.partition
        first, end = [
            (await offsets_or_raise(cluster, {partition: int(spec)}))[partition].offset
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        ]
        if first > self._position:
            self._lost(f"its first offset is now {first}", before=first)
            self._position = self._first = min(first, self._wanted.end)
        elif end <= self._position:
            self._lost(f"it ends before, at {end}")
            self._position = self._wanted.end
        # Otherwise the leader has changed meanwhile, and the new one is asked.

    def _lost(self, why: str, before: int | None = None) -> None:
        if self._options.fail_on_data_loss:
            end = self._wanted.end if before is None else min(before, self._wanted.end)
            raise offsets_lost(self._wanted.partition, self._position, end, why)

    def _rows(self, found: VisibleBatches) -> Iterator[pa.RecordBatch]:
        piece: list[Packed] = []
        piece_bytes = 0
        try:
            for at, header in found.batches:
                piece.append(unpack(found.data, at, header))
                piece_bytes += len(piece[-1].data)
                if piece_bytes >= PIECE_BYTES:
                    yield self._build(piece)
                    piece, piece_bytes = [], 0
            if piece:
                yield self._build(piece)
        except CorruptRecord as error:
            raise PipelineError(
                f"{self._wanted.partition} holds data that cannot be decoded: {error}. "
                "Start the query after that offset"
            ) from error

    def _build(self, piece: list[Packed]) -> pa.RecordBatch:
        return self._builder.rows(piece, self._first, self._wanted.end)


async def fetch_one(
    cluster: Cluster, wanted: OffsetRange, position: int, options: ReadOptions
) -> PartitionAnswer:
    """One fetch, repeated while brokers are away. Returns out-of-range errors as a response."""
    partition = wanted.partition

    async def attempt() -> PartitionAnswer:
        await cluster.topics_of([partition.topic])
        connection = await cluster.connection_to(cluster.leader_of(partition))
        if options.fail_on_data_loss:
            _check_same_topic(wanted, cluster.view.topic_id(partition.topic))
        answers = await fetch(cluster, connection, {partition: position}, options.client)
        answer = answers.get(partition)
        if answer is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"{partition} was recreated meanwhile")
        if answer.error is not None and answer.error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise answer.error
        return answer

    return await cluster.retry(attempt, what=f"reading {partition} from offset {position}")


def _check_same_topic(wanted: OffsetRange, topic_id: UUID) -> None:
    """The driver planned the read by a topic that may be gone when a task begins."""
    if wanted.topic_id is not None and topic_id not in (ZERO_UUID, wanted.topic_id):
        raise DataLossError(
            f"topic {wanted.partition.topic} was deleted and recreated after the read of "
            f"{wanted.partition} was planned, so its offsets mean other records. Start a stream "
            "with a new checkpoint, or repeat a batch read. With failOnDataLoss set to false, "
            "the new topic is read"
        )
