"""Writes transaction markers into this broker's partitions: implements `MarkerLog`."""

from __future__ import annotations

from collections.abc import Callable

from floodmark.clock import Clock
from floodmark.coordinators.transactions.ports import Marker
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC
from floodmark.promise import Promise
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.replication.outcomes import ACKS_ALL
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.wire.errors import ErrorCode

MARKER_TIMEOUT_MS = 30_000
"""How long a marker may wait for followers. The coordinator retries after that."""


class ReplicaMarkerLog:
    """`offsets_marked` informs the group coordinator of markers in its topic."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        offsets_marked: Callable[[int, Marker], None],
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._offsets_marked = offsets_marked

    def append_marker(
        self, topic: str, partition: int, marker: Marker
    ) -> ErrorCode | Promise[ErrorCode]:
        key = (topic, partition)
        control_type = ControlType.COMMIT if marker.committed else ControlType.ABORT
        batch = encode_marker(
            EndTransactionMarker(control_type, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        outcome = self._replicas.append_own(
            key, batch, transaction_version=marker.transaction_version
        )
        if outcome.error_code is not ErrorCode.NONE:
            return outcome.error_code
        if topic == CONSUMER_OFFSETS_TOPIC:
            self._offsets_marked(partition, marker)
        if not outcome.is_pending:
            return ErrorCode.NONE
        waiting = self._replicas.acknowledged({key: outcome}, ACKS_ALL, MARKER_TIMEOUT_MS)
        return waiting.map(lambda settled: settled[key].error_code)
