"""Moves groups with members between the classic and the consumer protocol. PURE.

The first member of the new protocol turns a classic group into a consumer group. When the last of
them leaves, it becomes a classic group again (`group.consumer.migration.policy`). Both moves write
the end of one group and the whole of the other in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from floodmark.coordinators.groups import consumer_records as records_of
from floodmark.coordinators.groups.classic_group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicMember,
)
from floodmark.coordinators.groups.consumer_group import ConsumerGroup, subscribed_topics
from floodmark.coordinators.groups.consumer_member import (
    Assignment,
    ClassicMetadata,
    ConsumerMember,
    with_epochs,
)
from floodmark.coordinators.groups.embedded_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from floodmark.coordinators.groups.records import GroupRecord, group_metadata
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.groups.subscriptions import metadata_hash
from floodmark.coordinators.ports import CoordinatorError
from floodmark.metadata.image import MetadataImage
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import WireError


def check_upgrade(group: ClassicGroup, settings: GroupSettings) -> None:
    """Raises GROUP_ID_NOT_FOUND with the reason, as Kafka does."""
    if not settings.can_upgrade:
        raise _cannot_upgrade(group, "online upgrade is disabled")
    if not group.is_consumer_protocol:
        raise _cannot_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > settings.consumer_max_size:
        raise _cannot_upgrade(group, "the group size exceeds the consumer group maximum size")


def _cannot_upgrade(group: ClassicGroup, why: str) -> CoordinatorError:
    return CoordinatorError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )


def upgraded(group: ClassicGroup, image: MetadataImage) -> tuple[ConsumerGroup, list[GroupRecord]]:
    """The consumer group that continues the classic one, and the records of the move."""
    consumer = ConsumerGroup(group.group_id)
    consumer.group_epoch = consumer.assignment_epoch = group.generation_id
    # An empty group may have no protocol, and nobody to vote for one.
    protocol = group.protocol_name or (group.select_protocol() if group.members else "")
    try:
        for member in group.members.values():
            _add_upgraded(consumer, member, protocol, image)
    except WireError as problem:
        raise _cannot_upgrade(group, "the embedded consumer protocol is malformed") from problem
    except _CustomAssignor as problem:
        raise _cannot_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch"
            " to a default assignor before re-attempting the upgrade",
        ) from problem
    topics = subscribed_topics(consumer.members.values(), {})
    consumer.metadata_hash = metadata_hash(topics, image)
    records: list[GroupRecord] = [group_metadata(group.group_id, None)]
    return consumer, records + records_of.group_records(consumer)


class _CustomAssignor(Exception):
    """The assignment carries data of the client's own assignor, which would be lost."""


def _add_upgraded(
    group: ConsumerGroup, member: ClassicMember, protocol: str, image: MetadataImage
) -> None:
    assignment, has_user_data = read_assignment(member.assignment, image)
    if has_user_data:
        raise _CustomAssignor
    subscription = read_subscription(member.metadata(protocol))
    group.target[member.member_id] = assignment
    group.put_member(
        ConsumerMember(
            member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols)),
            member_epoch=group.group_epoch,
            previous_member_epoch=group.group_epoch,
            assigned=with_epochs(assignment, group.group_epoch),
        )
    )


def can_downgrade(rest: list[ConsumerMember], settings: GroupSettings) -> bool:
    """Whether all remaining members use the classic protocol and may return to it."""
    return (
        bool(rest)
        and all(member.classic is not None for member in rest)
        and len(rest) <= settings.max_size
        and settings.can_downgrade
    )


def downgraded(
    group: ConsumerGroup, rest: Iterable[ConsumerMember], image: MetadataImage, now_ms: int
) -> list[GroupRecord]:
    """The records of the move back.

    Unlike Kafka, which stores the target assignment, this stores what members actually hold. If the
    group moves again before they have joined, nobody must get what another still consumes.
    """
    classic = ClassicGroup(
        group.group_id,
        ClassicState.STABLE,
        state_timestamp_ms=now_ms,
        generation_id=group.group_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    held: dict[str, Assignment] = {}
    for member in rest:
        held[member.member_id] = member.held()
        _add_downgraded(classic, member)
    classic.protocol_name = classic.select_protocol()
    assignments = {
        member_id: write_assignment(
            partitions, classic.members[member_id].metadata(classic.protocol_name), image
        )
        for member_id, partitions in held.items()
    }
    return [*records_of.group_tombstones(group), classic.to_record(assignments)]


def _add_downgraded(group: ClassicGroup, member: ConsumerMember) -> None:
    classic = member.classic or ClassicMetadata(0, ())
    group.add(
        ClassicMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            classic.session_timeout_ms,
            CONSUMER_PROTOCOL_TYPE,
            classic.protocols,
        )
    )
