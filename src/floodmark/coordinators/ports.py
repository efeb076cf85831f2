"""What the coordinators need of the world: a log for their internal topic, and its failures.

`broker.coordinator_log` implements `CoordinatorLog` over the partitions of this broker; tests use
`floodmark.testing.memory_coordinator_log`. Coordinators know nothing else of replication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from floodmark.wire.errors import ErrorCode


class CoordinatorError(Exception):
    """An operation that did not happen, with the code that tells the client so."""

    def __init__(self, error_code: ErrorCode, text: str = "") -> None:
        super().__init__(text or error_code.message)
        self.error_code = error_code
        self.text = text


class NotCoordinator(CoordinatorError):
    """This broker does not lead the partition, or leads it no longer."""

    def __init__(self, text: str = "") -> None:
        super().__init__(ErrorCode.NOT_COORDINATOR, text)


class NotAppended(CoordinatorError):
    """The log did not take the batch: what it was to bring about has not happened."""


class StorageFailed(NotAppended):
    """The log folder of the partition failed; another replica will take over."""

    def __init__(self, text: str = "") -> None:
        super().__init__(ErrorCode.NOT_COORDINATOR, text)


class AppendRefused(NotAppended):
    """Too few replicas are in sync, or the batch is larger than the topic allows."""


GuardedAppend: TypeAlias = Callable[[bytearray], int]
"""Appends one batch of a transaction that has been verified, as `CoordinatorLog.append` does;
AppendRefused with INVALID_TXN_STATE when the transaction has ended since."""


class CoordinatorLog(Protocol):
    """One internal topic, as its coordinator sees it."""

    topic: str

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has, or will have when it is created."""

    async def ensure_topic(self) -> None:
        """Create the topic when it does not exist yet."""

    def append(self, partition: int, batch: bytearray) -> int:
        """Append one batch (the log stamps its offset in place); returns the log end offset.

        Raises NotCoordinator, StorageFailed or AppendRefused, and then nothing was appended.
        """

    def start_verification(
        self, partition: int, producer_id: int, producer_epoch: int, *, bumps_epoch: bool
    ) -> GuardedAppend:
        """Called before the transaction coordinator is asked whether the partition belongs to the
        producer's transaction; what it returns is how to append after a good answer.

        `bumps_epoch` is for clients of the second transaction version. Raises NotCoordinator, and
        AppendRefused for an old epoch.
        """

    def high_watermark(self, partition: int) -> int:
        """The first offset that is not safe yet; cheap, it is asked for every answer."""

    def log_end_offset(self, partition: int) -> int: ...

    async def committed(self, partition: int, offset: int) -> None:
        """Return when high_watermark >= offset.

        Raises NotCoordinator when leadership is lost, TimeoutError after
        `offsets.commit.timeout.ms`.
        """

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        """Chunks of whole batches, from the log start to its end.

        The end is looked up again before each chunk, so that what is appended during a load is
        part of it. Raises NotCoordinator or StorageFailed.
        """
