"""The fetched data of one partition, decoded batch by batch on demand. PURE.

Skips records before the position, control batches and, under read_committed, aborted records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from floodmark.client.errors import KafkaError
from floodmark.records.batch import BatchHeader, Buffer, crc_ok, iter_headers
from floodmark.records.control import ControlType, decode_marker
from floodmark.records.errors import CorruptRecord
from floodmark.records.record import Record, iter_records
from floodmark.wire.errors import ErrorCode


class FetchedRecords:
    """Iterates over records. The offset to continue at may lie beyond the last record."""

    def __init__(
        self,
        data: Buffer,
        position: int,
        *,
        aborted: Iterable[tuple[int, int]] = (),
        check_crcs: bool = True,
    ) -> None:
        """`aborted` holds (first offset, producer id) of each aborted transaction in range."""
        self.position = position
        self._data = data
        self._check_crcs = check_crcs
        self._batches = iter_headers(data)
        self._aborted = sorted(aborted, reverse=True)
        self._aborting: set[int] = set()
        self._records: Iterator[Record] = iter(())
        self._after_batch = position
        self._error: KafkaError | None = None
        self.exhausted = False

    def take(self, limit: int) -> list[Record]:
        """Returns at most this many records. Sets `exhausted` when none are left.

        Unreadable data raises when it is next in line, and again on every call. Records before it
        are delivered; nothing after it is.
        """
        taken: list[Record] = []
        while len(taken) < limit and self._error is None:
            some = self._some(limit - len(taken))
            taken += some
            if some:
                self.position = some[-1].offset + 1
            elif not self._next_batch():
                self.exhausted = self._error is None
                break
        if self._error is not None and not taken:
            raise self._error
        return taken

    def _some(self, limit: int) -> list[Record]:
        """Takes records of the current batch. A corrupt batch yields those before the damage."""
        some: list[Record] = []
        try:
            some.extend(islice(self._records, limit))
        except CorruptRecord as error:
            self._error = KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))
        return some

    def _next_batch(self) -> bool:
        self.position = max(self.position, self._after_batch)
        try:
            at, header = next(self._batches)
            if self._check_crcs and not crc_ok(self._data, at, header):
                raise CorruptRecord(f"the batch at {header.base_offset} has a wrong checksum")
            self._after_batch = header.next_offset
            if self._is_visible(at, header):
                self._records = self._from_position(iter_records(self._data, at))
        except StopIteration:
            return False
        except CorruptRecord as error:
            self._error = KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))
            return False
        return True

    def _from_position(self, records: Iterator[Record]) -> Iterator[Record]:
        """A fetch returns whole batches, so the first may begin before the requested offset."""
        first = next(records, None)
        if first is None:
            return iter(())
        whole = chain((first,), records)
        if first.offset >= self.position:
            return whole
        position = self.position
        return (record for record in whole if record.offset >= position)

    def _is_visible(self, at: int, header: BatchHeader) -> bool:
        while self._aborted and self._aborted[-1][0] <= header.last_offset:
            self._aborting.add(self._aborted.pop()[1])
        if header.is_control:
            marker = decode_marker(self._data, at)
            if marker is not None and marker.control_type is ControlType.ABORT:
                self._aborting.discard(header.producer_id)
            return False
        if header.last_offset < self.position:
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)
