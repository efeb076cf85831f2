"""Maps failures of an internal log to client errors. PURE.

Called by the services of both coordinators, and by code that responds for groups directly.
"""

from __future__ import annotations

from typing import Final

from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode

# The log's own codes would make clients look for the leader of a topic they do not know.
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


def client_code(error: CoordinatorError) -> ErrorCode:
    return _FROM_THE_LOG.get(error.error_code, error.error_code)
