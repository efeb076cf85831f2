"""Short ways to refuse a request of a group, with the code that Kafka answers. PURE."""

from __future__ import annotations

from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode

_AS_COORDINATOR_ERROR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def client_code(error: CoordinatorError) -> ErrorCode:
    """What a client is told: errors of the internal log are not the client's business."""
    return _AS_COORDINATOR_ERROR.get(error.error_code, error.error_code)


def unknown_member(text: str = "") -> CoordinatorError:
    return CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, text)


def unknown_group(group_id: str) -> CoordinatorError:
    return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
