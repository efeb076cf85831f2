"""Group commit: syncs logs off the loop, one fdatasync for all appends that waited for it.

Used by `replication.replica_manager` if `flush.messages` requires a sync before the
acknowledgement. While a log is being synced, further appends only mark another sync as due. The
next one covers them all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from floodmark.replication.background import Background
from floodmark.replication.replica import Replica
from floodmark.storage.errors import StorageError


class Flusher:
    def __init__(
        self,
        background: Background,
        on_flushed: Callable[[Replica], None],
        on_failed: Callable[[Replica, StorageError | OSError], None],
    ) -> None:
        self._background = background
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._running: set[Replica] = set()

    def request(self, replica: Replica) -> None:
        """Syncs the log of a replica with a `flush_due_offset`."""
        if replica in self._running:
            return
        self._running.add(replica)
        # The outcome applies to the log as this leader epoch has written it.
        leader_epoch = replica.core.leadership.leader_epoch
        self._background.run(
            replica.log.fsync,
            partial(self._flushed, replica, leader_epoch),
            partial(self._failed, replica),
        )

    def _flushed(self, replica: Replica, leader_epoch: int, durable_end_offset: int) -> None:
        self._running.discard(replica)
        replica.flushed(durable_end_offset, leader_epoch)
        if replica.flush_due_offset is not None:
            self.request(replica)
        self._on_flushed(replica)

    def _failed(self, replica: Replica, problem: StorageError | OSError) -> None:
        self._running.discard(replica)
        self._on_failed(replica, problem)
