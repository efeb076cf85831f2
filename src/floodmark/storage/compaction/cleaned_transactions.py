"""Which batches and markers of transactions compaction may drop.

Aborted batches go at once. A marker stays as long as a batch of its transaction was there when the
cleaner came by, so that producer state made from the log alone never sees a transaction without an
end. Used by compaction.py, which shows it every batch in the order of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from floodmark.records.batch import BatchHeader
from floodmark.records.control import ControlType, EndTransactionMarker
from floodmark.storage.indexes.transaction_index import AbortedTransaction


class CleanedTransactions:
    """`aborted` are those whose markers lie in the range that is read."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._open_aborts: dict[int, AbortedTransaction] = {}
        self._aborts_with_batches: set[int] = set()
        self._committing: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this batch of data belongs to a transaction that was aborted."""
        self._come_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open_aborts:
            self._aborts_with_batches.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def end(
        self, header: BatchHeader, marker: EndTransactionMarker | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """For a control batch: whether it ends nothing that is still in the log, and what the new
        segment's index has to say about it."""
        self._come_to(header.last_offset)
        if marker is None:
            return True, None
        producer_id = header.producer_id
        if marker.control_type is ControlType.COMMIT:
            had_batches = producer_id in self._committing
            self._committing.discard(producer_id)
            return not had_batches, None
        aborted = self._open_aborts.pop(producer_id, None)
        had_batches = producer_id in self._aborts_with_batches
        self._aborts_with_batches.discard(producer_id)
        return (False, aborted) if had_batches else (True, None)

    def _come_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0].first_offset <= offset:
            entry = self._ahead.popleft()
            self._open_aborts.setdefault(entry.producer_id, entry)
