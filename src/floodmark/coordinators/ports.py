"""What the coordinators need from the broker: a log for their internal topic, and its failures.

`broker.coordinator_log` implements `CoordinatorLog` on this broker's partitions; tests use
`floodmark.testing.memory_coordinator_log`. Coordinators know nothing else about replication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from floodmark.wire.errors import ErrorCode


class CoordinatorError(Exception):
    """An operation that did not happen, with the error code for the client."""

    def __init__(self, error_code: ErrorCode, text: str = "") -> None:
        super().__init__(text or error_code.message)
        self.error_code = error_code
        self.text = text


class NotCoordinator(CoordinatorError):
    """This broker does not, or no longer, lead the partition."""

    def __init__(self, text: str = "") -> None:
        super().__init__(ErrorCode.NOT_COORDINATOR, text)


class NotAppended(CoordinatorError):
    """The log did not accept the batch, so it has no effect."""


class StorageFailed(NotAppended):
    """The partition's log folder failed; another replica will take over."""

    def __init__(self, text: str = "") -> None:
        super().__init__(ErrorCode.NOT_COORDINATOR, text)


class NotReadableYet(CoordinatorError):
    """The partition's log is intact, but the broker cannot open more files at the moment."""

    def __init__(self, text: str = "") -> None:
        super().__init__(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)


class AppendRefused(NotAppended):
    """Too few replicas are in sync, or the batch is larger than the topic allows."""


GuardedAppend: TypeAlias = Callable[[bytearray], int]
"""Appends one batch of a verified transaction, like `CoordinatorLog.append`.

Raises AppendRefused with INVALID_TXN_STATE if the transaction has ended since.
"""


class CoordinatorLog(Protocol):
    """An internal topic, for its coordinator."""

    topic: str

    @property
    def partition_count(self) -> int:
        """The topic's number of partitions, existing or when created."""

    async def ensure_topic(self) -> None:
        """Creates the topic if it does not exist."""

    def append(self, partition: int, batch: bytearray) -> int:
        """Appends one batch (the log sets its offset in place). Returns the log end offset.

        Raises NotCoordinator, StorageFailed or AppendRefused without appending anything.
        """

    def start_verification(
        self, partition: int, producer_id: int, producer_epoch: int, *, bumps_epoch: bool
    ) -> GuardedAppend:
        """Call this before asking the transaction coordinator whether the partition belongs to the
        producer's transaction. Returns the function to append with after a positive response.

        `bumps_epoch` is for clients of transaction version 2. Raises NotCoordinator, and
        AppendRefused for an old epoch.
        """

    def high_watermark(self, partition: int) -> int:
        """The first uncommitted offset. Cheap, because every response checks it."""

    def log_end_offset(self, partition: int) -> int: ...

    async def committed(self, partition: int, offset: int) -> None:
        """Returns once high_watermark >= offset.

        Raises NotCoordinator if leadership is lost, TimeoutError after `offsets.commit.timeout.ms`.
        """

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        """Chunks of whole batches, from the start of the log to its end.

        The end is read again before each chunk, so that a load includes concurrent appends. Raises
        NotCoordinator, StorageFailed or NotReadableYet.
        """
