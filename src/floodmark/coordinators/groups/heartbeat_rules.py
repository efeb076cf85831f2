"""Validates a ConsumerGroupHeartbeat before it reaches a group. PURE.

Called by `service.py`. Uses the texts that Kafka's clients and users know.
"""

from __future__ import annotations

from floodmark.coordinators.groups.consumer_member import LEFT, LEFT_FOR_A_WHILE
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CLIENT_MAKES_MEMBER_ID_SINCE = 1


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, settings: GroupSettings
) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    needs_id = api_version >= CLIENT_MAKES_MEMBER_ID_SINCE or epoch > 0 or epoch == LEFT
    _refuse(needs_id and not request.member_id, "MemberId can't be empty.")
    _refuse(not request.group_id, "GroupId can't be empty.")
    _refuse(request.instance_id == "", "InstanceId can't be empty.")
    _refuse(request.rack_id == "", "RackId can't be empty.")
    _refuse(epoch < LEFT_FOR_A_WHILE, "MemberEpoch is invalid.")
    _refuse(epoch == LEFT_FOR_A_WHILE and request.instance_id is None, "InstanceId can't be null.")
    if epoch == 0:
        _check_first(request)
    assignor = request.server_assignor
    if assignor is not None and assignor not in settings.consumer_assignors:
        raise CoordinatorError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors:"
            f" {', '.join(settings.consumer_assignors)}.",
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    """Joining with no names or an empty pattern is valid: a member without topics."""
    _refuse(
        request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."
    )
    _refuse(
        request.topic_partitions is None or bool(request.topic_partitions),
        "TopicPartitions must be empty when (re-)joining.",
    )
    _refuse(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _refuse(condition: bool, text: str) -> None:
    if condition:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, text)
