"""What the transaction coordinator needs of the broker, besides its log.

`broker` implements these over the replica manager, the metadata image and connections to other
brokers; tests implement them in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from floodmark.coordinators.ports import CoordinatorLog
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode


class TransactionLog(CoordinatorLog, Protocol):
    """`__transaction_state`, whose leader epochs are the epochs of coordinators."""

    def leader_epoch(self, partition: int) -> int:
        """Under which epoch this broker leads the partition; markers carry it to fence zombies."""


class Marker(NamedTuple):
    """What ends a producer's transaction in a partition."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


class MarkerLog(Protocol):
    """The partitions that this broker leads, as the target of markers."""

    def append_marker(
        self, topic: str, partition: int, marker: Marker
    ) -> ErrorCode | Promise[ErrorCode]:
        """Append the control batch; NONE when all in-sync replicas have it.

        A partition of `__consumer_offsets` also tells the group coordinator. Refusals are codes:
        INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED from the producer state,
        NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR and
        NOT_ENOUGH_REPLICAS of the partition, REQUEST_TIMED_OUT of the wait.
        """


class Cluster(Protocol):
    """Who leads what, and how to ask other brokers."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The leader's broker id, NO_LEADER when there is none now, None when there is no such
        partition (any more)."""

    async def request(self, broker_id: int, message: Any) -> Any:
        """Send a request to a broker, in the highest version that both know; raises OSError
        (ConnectionError, TimeoutError) when no answer comes."""
