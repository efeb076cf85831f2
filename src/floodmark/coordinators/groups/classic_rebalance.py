"""The rebalance of a classic group: join phase, sync phase, and expelling members. PURE.

`classic_join.py` and `classic.py` start it on requests, timers on silence. A classic group changes
in memory while its members join. Each generation is stored with its assignment, so after a failover
the last stable generation is found and its members rejoin.
"""

from __future__ import annotations

from floodmark.coordinators.groups.classic_group import ClassicGroup, ClassicMember
from floodmark.coordinators.groups.group_kinds import Groups
from floodmark.coordinators.groups.settings import Surroundings
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.groups.timer_keys import timer_key
from floodmark.coordinators.shard import Timers, Write
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.join_group import JoinGroupResponse
from floodmark.wire.messages.sync_group import SyncGroupResponse

NOTHING: Write[None] = Write(None)

NOBODY_CAME_RETRY_MS = 500
"""If only absent static members are left, the group waits in steps of their rebalance timeout until
their sessions end. Clients set that timeout, and it may be zero."""


class ClassicRebalance:
    """`groups` is the shard's own dictionary. Consumer groups in it are ignored here."""

    def __init__(self, groups: Groups, timers: Timers, surroundings: Surroundings) -> None:
        self.groups = groups
        self.timers = timers
        self.surroundings = surroundings

    def find(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # Sessions

    @staticmethod
    def heartbeat_key(group_id: str, member_id: str) -> str:
        return timer_key("heartbeat", group_id, member_id)

    def expect_heartbeat(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self.timers.schedule(
            self.heartbeat_key(group_id, member_id),
            timeout_ms,
            lambda _, now_ms: self._session_expired(group_id, member_id, now_ms),
        )

    def renew_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        self.expect_heartbeat(group.group_id, member.member_id, member.session_timeout_ms)

    def _session_expired(self, group_id: str, member_id: str, now_ms: int) -> Write[None]:
        group = self.find(group_id)
        if group is None:
            return NOTHING
        if member_id in group.pending_joins:
            group.remove(member_id)
            return self._complete_when_preparing(group, now_ms)
        member = group.members.get(member_id)
        if member is None or member.is_excused:
            return NOTHING
        left_ms = member.committed_ms + member.session_timeout_ms - now_ms
        if 0 < left_ms <= member.session_timeout_ms:
            self.expect_heartbeat(group_id, member_id, left_ms)
            return NOTHING
        self.remove_member(group, member_id)
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self.rebalance_or_complete(group, now_ms)
        return self._complete_when_preparing(group, now_ms)

    def remove_member(self, group: ClassicGroup, member_id: str) -> None:
        """A member that still waits for its join learns that it must start over."""
        self.timers.cancel(self.heartbeat_key(group.group_id, member_id))
        member = group.members.get(member_id)
        if member is not None:
            group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)

    # Join phase

    @staticmethod
    def _join_key(group: ClassicGroup) -> str:
        return f"join:{group.group_id}"

    def rebalance_or_complete(self, group: ClassicGroup, now_ms: int) -> Write[None]:
        if group.can_rebalance:
            return self.prepare_rebalance(group, now_ms)
        return self.complete_if_all_joined(group, now_ms)

    def prepare_rebalance(self, group: ClassicGroup, now_ms: int) -> Write[None]:
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._cancel_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self.timers.cancel(self._sync_key(group))
        is_first = group.state is ClassicState.EMPTY
        group.transition(ClassicState.PREPARING_REBALANCE, now_ms)
        if is_first:
            # Members of a new group tend to arrive together: wait for more, but not forever.
            delay_ms = self.surroundings.settings.initial_rebalance_delay_ms
            self._delay_first(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            return NOTHING
        if group.all_have_joined:
            return self._complete_join(group, now_ms)
        self._complete_join_later(group)
        return NOTHING

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> Write[None]:
        """Not in the first rebalance, where only the delay counts."""
        if group.previous_state is ClassicState.EMPTY:
            return NOTHING
        return self._complete_when_preparing(group, now_ms)

    def _complete_when_preparing(self, group: ClassicGroup, now_ms: int) -> Write[None]:
        if group.is_preparing and group.all_have_joined:
            return self._complete_join(group, now_ms)
        return NOTHING

    def _delay_first(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def operation(_: object, now_ms: int) -> Write[None]:
            if self.find(group.group_id) is not group or not group.is_preparing:
                return NOTHING
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                limit_ms = self.surroundings.settings.initial_rebalance_delay_ms
                self._delay_first(
                    group, min(limit_ms, remaining_ms), max(remaining_ms - delay_ms, 0)
                )
                return NOTHING
            return self._complete_join(group, now_ms)

        self.timers.schedule(self._join_key(group), delay_ms, operation)

    def _complete_join_later(self, group: ClassicGroup, at_least_ms: int = 0) -> None:
        def operation(_: object, now_ms: int) -> Write[None]:
            # A timer runs again if its record was not appended; the join was completed by then.
            if self.find(group.group_id) is not group or not group.is_preparing:
                return NOTHING
            return self._complete_join(group, now_ms)

        delay_ms = max(group.rebalance_timeout_ms, at_least_ms)
        self.timers.schedule(self._join_key(group), delay_ms, operation)

    def _complete_join(self, group: ClassicGroup, now_ms: int) -> Write[None]:
        self.timers.cancel(self._join_key(group))
        late = [m for m in group.members.values() if m.join_reply is None]
        for member in late:
            # Static members may return within their session, so they keep their place.
            if member.instance_id is None:
                self.remove_member(group, member.member_id)
        if not group.elect_joined_leader() and group.members:
            self._complete_join_later(group, NOBODY_CAME_RETRY_MS)
            return NOTHING
        group.next_generation(now_ms)
        if group.state is ClassicState.EMPTY:
            return Write(None, [group.to_record({})], replay=False)
        for member in list(group.members.values()):
            group.answer_join(member, group.join_response(member.member_id))
            self.renew_session(group, member)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._expect_syncs(group)
        return NOTHING

    # Sync phase

    @staticmethod
    def _sync_key(group: ClassicGroup) -> str:
        return f"sync:{group.group_id}"

    def _expect_syncs(self, group: ClassicGroup) -> None:
        generation_id = group.generation_id

        def operation(_: object, now_ms: int) -> Write[None]:
            if self.find(group.group_id) is not group or generation_id != group.generation_id:
                return NOTHING
            if not group.pending_syncs or not group.can_rebalance:
                return NOTHING
            for member_id in list(group.pending_syncs):
                self.remove_member(group, member_id)
            return self.prepare_rebalance(group, now_ms)

        self.timers.schedule(self._sync_key(group), group.rebalance_timeout_ms, operation)

    def sync_received(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self.timers.cancel(self._sync_key(group))

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], now_ms: int) -> None:
        """The assignment is committed: sends it to every member that waits for it."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        for member in list(group.members.values()):
            self._answer_sync(
                group,
                member,
                SyncGroupResponse(
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    assignment=member.assignment,
                ),
            )
        group.transition(ClassicState.STABLE, now_ms)

    def fail_assignment(self, group: ClassicGroup, error_code: ErrorCode, now_ms: int) -> None:
        self._cancel_syncs(group, error_code)
        self.rebalance_or_complete(group, now_ms)

    def _cancel_syncs(self, group: ClassicGroup, error_code: ErrorCode) -> None:
        """Keeps the assignments, unlike Kafka.

        Cooperative members consume their old ones until they get others, and a group that moves to
        the consumer protocol must know them.
        """
        for member in list(group.members.values()):
            self._answer_sync(group, member, SyncGroupResponse(error_code=error_code))

    def _answer_sync(
        self, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse
    ) -> None:
        """A session that ended while the member was excused must restart here."""
        if group.answer_sync(member, response):
            self.renew_session(group, member)
