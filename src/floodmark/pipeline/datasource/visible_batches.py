"""Selects the batches of a fetched response that a query may see. PURE.

Called by `reading.py`. Skips control batches and, under read_committed, aborted ones. The position
moves past them anyway, so gaps are not an error.
"""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.records.batch import BatchHeader, crc_ok, iter_headers
from floodmark.records.control import ControlType, decode_marker
from floodmark.records.errors import CorruptRecord


class VisibleBatches:
    """The batches to decode, as (position in the data, header), and the offset to continue at."""

    def __init__(
        self,
        data: memoryview,
        position: int,
        *,
        aborted: Iterable[tuple[int, int]] = (),
        check_crcs: bool = True,
    ) -> None:
        """`aborted` holds (first offset, producer id) of each aborted transaction in range."""
        self.data = data
        self.next_position = position
        self.batches: list[tuple[int, BatchHeader]] = []
        self._aborted = sorted(aborted, reverse=True)
        self._aborting: set[int] = set()
        for at, header in iter_headers(data):
            if check_crcs and not crc_ok(data, at, header):
                raise CorruptRecord(f"the batch at {header.base_offset} has a wrong checksum")
            if self._is_visible(at, header, position):
                self.batches.append((at, header))
            self.next_position = max(self.next_position, header.next_offset)

    def _is_visible(self, at: int, header: BatchHeader, position: int) -> bool:
        while self._aborted and self._aborted[-1][0] <= header.last_offset:
            self._aborting.add(self._aborted.pop()[1])
        if header.is_control:
            marker = decode_marker(self.data, at)
            if marker is not None and marker.control_type is ControlType.ABORT:
                self._aborting.discard(header.producer_id)
            return False
        if header.last_offset < position or header.records_count == 0:
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)
