"""Shortcuts for refusing group requests with Kafka's error codes. PURE."""

from __future__ import annotations

from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode


def unknown_member(text: str = "") -> CoordinatorError:
    return CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID, text)


def unknown_group(group_id: str) -> CoordinatorError:
    return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
