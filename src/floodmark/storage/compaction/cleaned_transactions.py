"""Decides which transactional batches and markers compaction may drop.

Aborted batches go immediately. A marker stays as long as a batch of its transaction was still
there, so that producer state rebuilt from the log never sees an unfinished transaction. Used by
compaction.py, which passes every batch in log order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from floodmark.records.batch import BatchHeader
from floodmark.records.control import ControlType, EndTransactionMarker
from floodmark.storage.indexes.transaction_index import AbortedTransaction


class CleanedTransactions:
    """`aborted` holds those whose markers lie in the range being read."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ahead = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        self._open_aborts: dict[int, AbortedTransaction] = {}
        self._aborts_with_batches: set[int] = set()
        self._committing: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this data batch belongs to an aborted transaction."""
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
        """For a control batch.

        Whether its transaction has nothing left in the log, and the entry for the new segment's
        index.
        """
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
