"""What the transaction coordinator needs from the broker, besides its log.

`broker` implements these with the replica manager, the metadata image and connections to other
brokers. Tests implement them in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from floodmark.coordinators.ports import CoordinatorLog
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode


class TransactionLog(CoordinatorLog, Protocol):
    """`__transaction_state`, whose leader epochs are the epochs of coordinators."""

    def leader_epoch(self, partition: int) -> int:
        """The epoch under which this broker leads the partition.

        Markers carry it to fence zombies.
        """


class Marker(NamedTuple):
    """The end of a producer's transaction in a partition."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


class MarkerLog(Protocol):
    """The partitions this broker leads, as targets of markers."""

    def append_marker(
        self, topic: str, partition: int, marker: Marker
    ) -> ErrorCode | Promise[ErrorCode]:
        """Appends the control batch. NONE once all in-sync replicas have it.

        For a partition of `__consumer_offsets`, also informs the group coordinator. Refusals are
        codes: INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED from the producer state,
        NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR and
        NOT_ENOUGH_REPLICAS from the partition, REQUEST_TIMED_OUT after the wait.
        """


class Cluster(Protocol):
    """Partition leaders, and how to reach other brokers."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The leader's broker id.

        NO_LEADER if there is none, None if the partition does not exist.
        """

    async def request(self, broker_id: int, message: Any) -> Any:
        """Sends a request to a broker in the highest common version.

        Raises OSError (ConnectionError, TimeoutError) if there is no response.
        """
