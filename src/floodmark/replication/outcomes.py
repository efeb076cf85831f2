"""The outcomes of appends and reads of one partition.

Created by `replication.leading`. `replication.replica_manager` passes them to the APIs, which turn
them into responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from floodmark.records.errors import InvalidBatch
from floodmark.records.validation import ValidatedBatch
from floodmark.storage.files import FileSlice
from floodmark.storage.indexes.transaction_index import AbortedTransaction
from floodmark.vocabulary import NO_OFFSET, NO_TIMESTAMP
from floodmark.wire.errors import ErrorCode

ACKS_ALL = -1
NO_REPLICA = -1


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


ISOLATIONS: Final = {int(isolation): isolation for isolation in Isolation}
"""By the numbers that clients send."""


class AppendOutcome(NamedTuple):
    """The outcome for one partition of a produce request.

    The acknowledgement waits until everything before `required_offset` is acknowledgeable.
    `is_pending` means that it is not yet.
    """

    error_code: ErrorCode
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    required_offset: int = 0
    is_pending: bool = False
    record_errors: Sequence[tuple[int, str]] = ()
    error_message: str | None = None


NOT_VALIDATED: Final = AppendOutcome(
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    error_message="the settings of the topic have just changed; try again",
)
"""The batch was not validated under the topic's current rules. Clients see this only if the rules
changed during validation, and retry."""

DeepValidation: TypeAlias = ValidatedBatch | InvalidBatch
"""The result of validating records. A refusal is reported when the batch is appended, because other
refusals take precedence."""


class Divergence(NamedTuple):
    """Where a follower's log diverges from ours. It must truncate to this (KIP-101, KIP-595)."""

    leader_epoch: int
    end_offset: int


class ReadOutcome(NamedTuple):
    """The outcome for one partition of a fetch request."""

    error_code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    records: FileSlice | None = None
    aborted: list[AbortedTransaction] | None = None
    divergence: Divergence | None = None
    preferred_read_replica: int = NO_REPLICA

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes
