"""Transaction markers into the partitions of this broker: the transactions' `MarkerLog`."""

from __future__ import annotations

from collections.abc import Callable

from floodmark.clock import Clock
from floodmark.coordinators.transactions.ports import Marker
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC
from floodmark.promise import Promise
from floodmark.records.batch import read_header
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.replication.replica import ACKS_ALL, AppendOutcome
from floodmark.replication.replica_manager import ReplicaManager
from floodmark.storage.errors import AppendRefused, StorageError
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.wire.errors import ErrorCode

MARKER_TIMEOUT_MS = 30_000
"""How long a marker may wait for its followers; the coordinator tries again after that."""


class ReplicaMarkerLog:
    """`offsets_marked` tells the group coordinator of a marker in a partition of its topic."""

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
        replica = self._replicas.find(key)
        if replica is None:
            return self._replicas.missing(key)
        if not replica.core.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not replica.core.has_enough_in_sync_replicas():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        now_ms = self._clock.now_ms()
        control_type = ControlType.COMMIT if marker.committed else ControlType.ABORT
        batch = encode_marker(
            EndTransactionMarker(control_type, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
        )
        try:
            replica.log.append(
                batch,
                read_header(batch),
                replica.core.leadership.leader_epoch,
                now_ms,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=marker.transaction_version,
            )
        except AppendRefused as problem:
            return problem.error_code
        except StorageError as problem:
            self._replicas.disk_failed(replica, problem)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._replicas.grown(replica)
        if topic == CONSUMER_OFFSETS_TOPIC:
            self._offsets_marked(partition, marker)
        return self._when_replicated(key, replica.log.log_end_offset)

    def _when_replicated(self, key: tuple[str, int], offset: int) -> ErrorCode | Promise[ErrorCode]:
        replica = self._replicas.find(key)
        if replica is not None and replica.core.high_watermark >= offset:
            return ErrorCode.NONE
        outcomes = {key: AppendOutcome(ErrorCode.NONE, required_offset=offset)}
        waiting = self._replicas.acknowledged(outcomes, ACKS_ALL, MARKER_TIMEOUT_MS)
        return waiting.map(lambda settled: settled[key].error_code)
