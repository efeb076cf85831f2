"""An in-memory internal topic for coordinator tests: appends, delayed commits, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from floodmark.coordinators.ports import AppendRefused, CoordinatorError, GuardedAppend
from floodmark.records.batch import HEADER_BYTES, patch, read_header
from floodmark.wire.errors import ErrorCode


class MemoryCoordinatorLog:
    """A `CoordinatorLog`. The high watermark follows every append unless `hold` is set.

    With `commits_later` it follows in a later loop iteration, as after an fsync or with followers.
    Batches above `max_batch_bytes` are refused, as `max.message.bytes` does.
    """

    def __init__(
        self,
        topic: str = "__consumer_offsets",
        partition_count: int = 50,
        *,
        commits_later: bool = False,
    ) -> None:
        self.topic = topic
        self.commits_later = commits_later
        self._partition_count = partition_count
        self._batches: dict[int, list[bytes]] = {}
        self._end_offsets: dict[int, int] = {}
        self._high_watermarks: dict[int, int] = {}
        self._moved = asyncio.Event()
        self.max_batch_bytes = 1 << 20
        self.hold = False
        self.fail_with: CoordinatorError | None = None
        self.lose_with: CoordinatorError | TimeoutError | None = None
        self._gives_up = False

    @property
    def partition_count(self) -> int:
        return self._partition_count

    async def ensure_topic(self) -> None:
        return

    def start_verification(
        self, partition: int, producer_id: int, producer_epoch: int, *, bumps_epoch: bool
    ) -> GuardedAppend:
        return lambda batch: self.append(partition, batch)

    def append(self, partition: int, batch: bytearray) -> int:
        if self.fail_with is not None:
            raise self.fail_with
        if len(batch) > self.max_batch_bytes:
            raise AppendRefused(ErrorCode.RECORD_LIST_TOO_LARGE)
        base_offset = self.log_end_offset(partition)
        patch(batch, 0, base_offset=base_offset, leader_epoch=0)
        end_offset = base_offset + read_header(batch).last_offset_delta + 1
        self._batches.setdefault(partition, []).append(bytes(batch))
        self._end_offsets[partition] = end_offset
        if self.commits_later:
            asyncio.get_running_loop().call_soon(self._commit, partition, end_offset)
        else:
            self._commit(partition, end_offset)
        return end_offset

    def _commit(self, partition: int, end_offset: int) -> None:
        if not self.hold:
            self._high_watermarks[partition] = end_offset
            self._moved.set()

    def high_watermark(self, partition: int) -> int:
        return self._high_watermarks.get(partition, 0)

    def log_end_offset(self, partition: int) -> int:
        return self._end_offsets.get(partition, 0)

    async def committed(self, partition: int, offset: int) -> None:
        while self.high_watermark(partition) < offset:
            if self._gives_up:
                return
            if self.lose_with is not None:
                raise self.lose_with
            self._moved.clear()
            await self._moved.wait()

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        position = 0
        while position < len(self._batches.get(partition, ())):
            yield self._batches[partition][position]
            position += 1

    def commit_all(self) -> None:
        """Advances the high watermarks to the log ends, as followers do."""
        self.hold = False
        self._high_watermarks.update(self._end_offsets)
        self._moved.set()

    def lose(self, error: CoordinatorError | TimeoutError) -> None:
        """Fails everything that waits for the high watermark with this error."""
        self.lose_with = error
        self._moved.set()

    def give_up(self) -> None:
        """Ends all waiting without advancing the high watermark."""
        self._gives_up = True
        self._moved.set()

    def damage(self, partition: int) -> None:
        """Corrupts the last batch: one of its records extends past its end."""
        batch = bytearray(self._batches[partition][-1])
        batch[HEADER_BYTES] = 0x7E
        self._batches[partition][-1] = bytes(batch)
