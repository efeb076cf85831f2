"""Who may commit and fetch a group's offsets, and the errors for those who may not. PURE."""

from __future__ import annotations

from uuid import UUID

from floodmark.coordinators.groups.classic_group import ClassicGroup
from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.consumer_member import ConsumerMember
from floodmark.coordinators.groups.errors import unknown_group, unknown_member
from floodmark.coordinators.groups.offset_requests import PartitionCheck
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_commit import OffsetCommitRequest

MEMBER_EPOCHS_SINCE = 9
"""OffsetCommit v9: for members of the new protocol. A missing group is reported as such."""


def check_simple_commit(api_version: int, request: OffsetCommitRequest) -> None:
    """For a group that does not exist: allowed only without a generation."""
    if request.generation_id_or_member_epoch < 0:
        return
    if api_version >= MEMBER_EPOCHS_SINCE:
        raise unknown_group(request.group_id)
    raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)


def commit_check(
    group: ClassicGroup | ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
    *,
    api_version: int | None = None,
) -> PartitionCheck | None:
    """Raises if the commit is refused. Otherwise returns the check for each partition.

    Without `api_version` it is transactional. Without a generation it comes from an administrator
    or a consumer with manual assignment, who may commit while the group is empty.
    """
    if generation_id < 0 and group.is_empty:
        return None
    if isinstance(group, ConsumerGroup):
        return _consumer_check(group, member_id, instance_id, generation_id, api_version)
    _check_classic(group, member_id, instance_id, generation_id, in_transaction=api_version is None)
    return None


def _check_classic(
    group: ClassicGroup,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
    *,
    in_transaction: bool,
) -> None:
    """Old transactional producers do not name their member."""
    if generation_id >= 0 or member_id or instance_id is not None:
        group.validate_member(member_id, instance_id)
        if generation_id != group.generation_id:
            raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)
    elif not in_transaction:
        raise unknown_member()
    if not in_transaction and group.state is ClassicState.COMPLETING_REBALANCE:
        raise CoordinatorError(ErrorCode.REBALANCE_IN_PROGRESS)


def _consumer_check(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    api_version: int | None,
) -> PartitionCheck | None:
    if api_version is None and member_epoch < 0 and not member_id and instance_id is None:
        return None
    member = group.member(member_id)
    if api_version is not None and api_version < MEMBER_EPOCHS_SINCE and member.classic is None:
        raise CoordinatorError(ErrorCode.UNSUPPORTED_VERSION)
    if member_epoch == member.member_epoch:
        return None
    in_transaction = api_version is None
    if member_epoch > member.member_epoch:
        raise _stale(member, in_transaction)

    def check(topic_id: UUID, partition: int) -> None:
        """An older epoch is fine for a partition the member has held since then."""
        assignment_epoch = member.assignment_epoch_of(topic_id, partition)
        if assignment_epoch is None or member_epoch < assignment_epoch:
            raise _stale(member, in_transaction)

    return check


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Requests without a member id may read."""
    if member_id is None and member_epoch < 0:
        return
    member = group.member(member_id or "")
    if member_epoch != member.member_epoch:
        raise _stale(member, False)


def _stale(member: ConsumerMember, in_transaction: bool) -> CoordinatorError:
    is_classic = member.classic is not None or in_transaction
    return CoordinatorError(
        ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    )
