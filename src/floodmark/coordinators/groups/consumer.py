"""ConsumerGroupHeartbeat: join, stay in and leave a group of the new protocol. PURE.

Called by `shard.py`. One heartbeat does everything: it updates the member, raises the group epoch
if the subscription or the topics changed, computes a new target assignment, and moves the member
one step closer to it. Nothing changes here: replaying the returned records does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from floodmark.coordinators.groups import consumer_records as records_of
from floodmark.coordinators.groups.assignors import ASSIGNORS, MemberSpec
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.consumer_change import Change
from floodmark.coordinators.groups.consumer_group import ConsumerGroup, subscribed_topics
from floodmark.coordinators.groups.consumer_member import (
    LEFT_FOR_A_WHILE,
    Assignment,
    ConsumerMember,
)
from floodmark.coordinators.groups.consumer_patterns import ConsumerPatterns
from floodmark.coordinators.groups.consumer_timers import ConsumerTimers, Remove
from floodmark.coordinators.groups.errors import unknown_member
from floodmark.coordinators.groups.group_kinds import Groups
from floodmark.coordinators.groups.heartbeat_fields import (
    assignment_message,
    is_full,
    owned_in,
    updated_by,
)
from floodmark.coordinators.groups.reconcile import Reconciliation
from floodmark.coordinators.groups.records import GroupRecord
from floodmark.coordinators.groups.settings import Surroundings
from floodmark.coordinators.groups.subscriptions import metadata_hash, topic_ids
from floodmark.coordinators.ports import CoordinatorError
from floodmark.coordinators.shard import Timers, Write
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

T = TypeVar("T")


class ConsumerHeartbeats:
    """Calls `remove` for members that leave, which may turn the group into a classic one."""

    def __init__(
        self, groups: Groups, timers: Timers, surroundings: Surroundings, remove: Remove
    ) -> None:
        self._groups = groups
        self._surroundings = surroundings
        self._remove = remove
        self.patterns = ConsumerPatterns(groups, surroundings)
        self.timers = ConsumerTimers(groups, timers, surroundings, remove)

    def beat(
        self,
        group: ConsumerGroup,
        records: list[GroupRecord],
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        now_ms: int,
    ) -> Write[ConsumerGroupHeartbeatResponse]:
        """`records` holds the conversion from a classic group, if there was one."""
        change = Change(group, records, client)
        member_id = request.member_id or self._surroundings.new_uuid()
        self.check_room(group, member_id)
        owned = owned_in(request.topic_partitions)
        self._find_member(change, request, member_id, owned)
        change.updated = updated_by(change.member, client, request)
        self.apply_update(change, now_ms)
        self.update_target(change, now_ms)
        changed = (
            change.updated.topic_names != change.member.topic_names
            or change.updated.topic_regex != change.member.topic_regex
        )
        before = change.updated.assigned
        self.reconcile(change, owned, subscription_changed=changed)
        self.timers.expect_heartbeat(
            group.group_id, member_id, self.timers.session_timeout_ms(group.group_id)
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=change.updated.member_epoch,
            heartbeat_interval_ms=self.timers.heartbeat_interval_ms(group.group_id),
        )
        if (
            request.member_epoch == 0
            or is_full(request)
            or before != change.updated.assigned
            # Kafka names the partitions to give up only once. If the client did not wait for that
            # response (librdkafka waits 5 s), the group would hang until the rebalance timeout.
            or change.updated.pending_revocation
        ):
            response.assignment = assignment_message(change.updated)
        return Write(response, records, applied=self.checked(group.group_id))

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> Write[ConsumerGroupHeartbeatResponse]:
        member_id, instance_id = request.member_id, request.instance_id
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        if instance_id is None:
            return self._remove([group.member(member_id)], group, response, now_ms)
        member = known_static(group, instance_id)
        check_not_fenced(member, member_id, instance_id)
        if request.member_epoch != LEFT_FOR_A_WHILE:
            return self._remove([member], group, response, now_ms)
        # It will return: its partitions are kept for it.
        absent = replace(
            member,
            member_epoch=LEFT_FOR_A_WHILE,
            pending_revocation={},
            assigned={t: dict.fromkeys(p, 0) for t, p in member.assigned.items()},
        )
        return Write(response, [records_of.current_assignment(group.group_id, absent)])

    # Members

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._surroundings.settings.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise CoordinatorError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _find_member(
        self,
        change: Change,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        owned: Assignment | None,
    ) -> None:
        group, instance_id = change.group, request.instance_id
        is_joining = request.member_epoch == 0
        if instance_id is not None and is_joining:
            self.take_static_place(change, member_id, instance_id, is_classic=False)
            return
        if instance_id is not None:
            member = known_static(group, instance_id)
            check_not_fenced(member, member_id, instance_id)
        elif is_joining:
            member = group.members.get(member_id) or ConsumerMember(member_id)
        else:
            member = group.member(member_id)
        _check_epoch(member, request.member_epoch, owned)
        change.member = member

    def take_static_place(
        self, change: Change, member_id: str, instance_id: str, *, is_classic: bool
    ) -> None:
        """A static member joins: a new one, or one that replaces its former self.

        An active member may join again under its own id, as a dynamic one may: the response to its
        join was lost, or it was fenced. Kafka refuses it, which ends the client.
        """
        group = change.group
        old = group.static_member(instance_id)
        if old is None:
            change.member = group.members.get(member_id) or ConsumerMember(member_id)
            return
        if not is_classic and old.classic is None and old.member_epoch != LEFT_FOR_A_WHILE:
            if old.member_id == member_id:
                change.member = old
                return
            raise CoordinatorError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group"
                f" because the instance id is owned by {old.member_id} member.",
            )
        new = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        change.replaced = None if old.member_id == member_id else old
        change.records += [
            *records_of.member_tombstones(group.group_id, old.member_id),
            records_of.member_metadata(group.group_id, new),
            records_of.target_assignment(group.group_id, member_id, group.target_of(old.member_id)),
            records_of.current_assignment(group.group_id, new),
        ]
        change.member = new

    # The group

    def apply_update(self, change: Change, now_ms: int) -> None:
        """Records the member, and raises the group epoch if necessary."""
        group, member, updated = change.group, change.member, change.updated
        is_new = updated.member_id not in group.members and change.replaced is None
        if updated != member or is_new:
            change.records.append(records_of.member_metadata(group.group_id, updated))
        must_bump = updated.topic_names != member.topic_names
        is_stale = group.checked_version != self._surroundings.topics_version
        if self.patterns.must_resolve(change, now_ms):
            must_bump |= self.patterns.resolve(change, now_ms)
        if must_bump or is_stale:
            self._bump(change, must_bump)

    def _bump(self, change: Change, must_bump: bool) -> None:
        group = change.group
        topics = subscribed_topics(change.members().values(), change.regexes)
        new_hash = metadata_hash(topics, self._surroundings.image)
        if must_bump or new_hash != group.metadata_hash:
            change.group_epoch = group.group_epoch + 1
            change.records.append(
                records_of.group_epoch(group.group_id, change.group_epoch, new_hash)
            )
        if group.has_legacy_metadata:
            change.records.append(records_of.legacy_metadata_tombstone(group.group_id))

    def update_target(self, change: Change, now_ms: int) -> None:
        """Computes a new target assignment if the group epoch is ahead, but not too often."""
        group, updated = change.group, change.updated
        change.target_epoch = group.assignment_epoch
        change.target = group.target_of(updated.member_id, updated.instance_id)
        if group.assignment_epoch >= change.group_epoch:
            return
        # If the clock was set back, the group must not wait until it catches up.
        elapsed_ms = now_ms - group.assignment_timestamp_ms
        if 0 <= elapsed_ms < self.timers.assignment_interval_ms(group.group_id):
            return
        target = self._assign(change)
        old_id = None if change.replaced is None else change.replaced.member_id
        for member_id, assignment in target.items():
            old = group.target.get(member_id)
            if member_id == updated.member_id and old_id is not None:
                old = group.target_of(old_id)
            if old != assignment:
                change.records.append(
                    records_of.target_assignment(group.group_id, member_id, assignment)
                )
        change.records.append(records_of.target_epoch(group.group_id, change.group_epoch, now_ms))
        change.target_epoch = change.group_epoch
        change.target = target[updated.member_id]

    def _assign(self, change: Change) -> dict[str, dict[UUID, frozenset[int]]]:
        group, image = change.group, self._surroundings.image
        members = change.members()
        specs = {
            member_id: MemberSpec(
                member.instance_id,
                topic_ids(subscribed_topics((member,), change.regexes), image),
                group.target_of(member_id, member.instance_id),
            )
            for member_id, member in members.items()
        }
        sizes = {
            topic_id: len(image.topics_by_id[topic_id].partitions)
            for topic_id in sorted({t for spec in specs.values() for t in spec.topic_ids})
        }
        assigned = ASSIGNORS[self.assignor_name(members)](specs, sizes)
        return {
            member_id: {topic_id: frozenset(p) for topic_id, p in topics.items()}
            for member_id, topics in assigned.items()
        }

    def assignor_name(self, members: dict[str, ConsumerMember]) -> str:
        """The assignor most members ask for, or the broker's first if nobody asks."""
        votes: dict[str, int] = {}
        for member in members.values():
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        if not votes:
            return self._surroundings.settings.consumer_assignors[0]
        return max(sorted(votes), key=lambda name: votes[name])

    def reconcile(
        self, change: Change, owned: Assignment | None, *, subscription_changed: bool
    ) -> None:
        member = change.updated
        if not subscription_changed and member.is_reconciled_to(change.target_epoch):
            return
        topics = subscribed_topics((member,), change.regexes)
        stepped = Reconciliation(
            member,
            change.target_epoch,
            change.target,
            subscribed_ids=topic_ids(topics, self._surroundings.image),
            subscription_changed=subscription_changed,
            owners=change.group.owners,
            reported=owned,
        ).step()
        if stepped != member:
            group_id = change.group.group_id
            change.records.append(records_of.current_assignment(group_id, stepped))
            if stepped.classic is None:
                self.timers.expect_revocation(group_id, stepped)
        change.updated = stepped

    def removal(
        self, members: list[ConsumerMember], group: ConsumerGroup, answer: T, now_ms: int
    ) -> Write[T]:
        """Members leave or are expelled. The rest get a new epoch, and a new target at the next
        heartbeat."""
        if not members:
            return Write(answer)
        group_id = group.group_id
        leaving = {member.member_id for member in members}
        rest = [m for m in group.members.values() if m.member_id not in leaving]
        records: list[GroupRecord] = []
        for member in members:
            records += records_of.member_tombstones(group_id, member.member_id)
        wanted = {member.topic_regex for member in rest}
        regexes = {p: r for p, r in group.regexes.items() if p in wanted}
        for pattern in group.regexes.keys() - regexes.keys():
            records.append(records_of.regex(group_id, pattern, None))
        new_hash = metadata_hash(subscribed_topics(rest, regexes), self._surroundings.image)
        records.append(records_of.group_epoch(group_id, group.group_epoch + 1, new_hash))

        def applied() -> None:
            for member_id in leaving:
                self.timers.cancel_timers_of(group_id, member_id)

        return Write(answer, records, applied=applied)

    def checked(self, group_id: str) -> Callable[[], None]:
        """Records the topics version the group was compared with, once it is stored."""
        version = self._surroundings.topics_version

        def applied() -> None:
            group = self._groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                group.checked_version = version

        return applied


def check_not_fenced(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        raise CoordinatorError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {member.member_id}.",
        )


def known_static(group: ConsumerGroup, instance_id: str) -> ConsumerMember:
    member = group.static_member(instance_id)
    if member is None:
        raise unknown_member(f"Instance id {instance_id} is unknown.")
    return member


def _check_epoch(member: ConsumerMember, received: int, owned: Assignment | None) -> None:
    """Accepts the previous epoch from a member that may have missed the last response, if it owns
    nothing beyond its assignment."""
    if received in (0, member.member_epoch):
        return
    is_late = received < member.member_epoch and received == member.previous_member_epoch
    if is_late and owned is not None and _is_subset(owned, member):
        return
    size = "greater" if received > member.member_epoch else "smaller"
    raise CoordinatorError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({received}) than the one known by"
        f" the group coordinator ({member.member_epoch}). The member must abandon all its"
        " partitions and rejoin.",
    )


def _is_subset(owned: Assignment, member: ConsumerMember) -> bool:
    return all(
        partitions <= member.assigned.get(topic_id, {}).keys()
        for topic_id, partitions in owned.items()
    )
