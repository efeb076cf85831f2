"""How failures of the log and of the coordinator are told to producers. PURE.

Called by `transactions.service` and `transactions.verification`.
"""

from __future__ import annotations

from typing import Final

from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode

# The log's own words would make clients look for the leader of a topic they never heard of.
_FROM_THE_LOG: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

# A produce request is not sent to the coordinator: its trouble becomes one that every producer
# answers by sending the batch again, without a look at the metadata.
_TRY_PRODUCE_AGAIN: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

PRODUCE_KNOWS_ABORTABLE_SINCE: Final = 11
PRODUCE_ADDS_PARTITIONS_SINCE: Final = 12


def as_transaction_error(error: CoordinatorError) -> ErrorCode:
    return _FROM_THE_LOG.get(error.error_code, error.error_code)


def for_producer(error_code: ErrorCode, produce_version: int) -> ErrorCode:
    """What a produce request is answered when its partition could not be verified or added."""
    if error_code in _TRY_PRODUCE_AGAIN:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if (
        error_code is ErrorCode.CONCURRENT_TRANSACTIONS
        and produce_version < PRODUCE_ADDS_PARTITIONS_SINCE
    ):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if (
        error_code is ErrorCode.TRANSACTION_ABORTABLE
        and produce_version < PRODUCE_KNOWS_ABORTABLE_SINCE
    ):
        return ErrorCode.INVALID_TXN_STATE
    return error_code
