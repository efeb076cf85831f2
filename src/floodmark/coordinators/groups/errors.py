"""Short ways to refuse a request of a group, with the code that Kafka answers. PURE."""

from __future__ import annotations

from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode


def unknown_member(text: str = "") -> CoordinatorError:
    return CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, text)


def unknown_group(group_id: str) -> CoordinatorError:
    return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
