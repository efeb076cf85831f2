"""The timers of consumer group members, and the groups' own settings. PURE.

A member is expelled if it is silent for its session timeout, if it does not give up partitions
within its rebalance timeout, and (in the classic protocol) if it does not join or sync in time.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.consumer_member import ConsumerMember, MemberState
from floodmark.coordinators.groups.group_kinds import Groups
from floodmark.coordinators.groups.settings import Surroundings
from floodmark.coordinators.groups.timer_keys import timer_key
from floodmark.coordinators.shard import Timers, Write

T = TypeVar("T")


class Remove(Protocol):
    """The effect on the group when these members leave or are expelled. Passes `answer` on."""

    def __call__(
        self, members: list[ConsumerMember], group: ConsumerGroup, answer: T, now_ms: int
    ) -> Write[T]: ...


class ConsumerTimers:
    """`groups` is the shard's own dictionary. Classic groups in it are ignored here."""

    def __init__(
        self, groups: Groups, timers: Timers, surroundings: Surroundings, remove: Remove
    ) -> None:
        self._groups = groups
        self._timers = timers
        self._surroundings = surroundings
        self._remove = remove

    def find(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # Settings of the group or the broker

    def session_timeout_ms(self, group_id: str) -> int:
        default = self._surroundings.settings.consumer_session_timeout_ms
        return self._group_setting(group_id, "consumer.session.timeout.ms", default)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        default = self._surroundings.settings.consumer_heartbeat_interval_ms
        return self._group_setting(group_id, "consumer.heartbeat.interval.ms", default)

    def assignment_interval_ms(self, group_id: str) -> int:
        default = self._surroundings.settings.consumer_assignment_interval_ms
        return self._group_setting(group_id, "consumer.assignment.interval.ms", default)

    def _group_setting(self, group_id: str, name: str, default: int) -> int:
        text = self._surroundings.image.config("group", group_id).get(name)
        return default if text is None else int(text)

    # Timers

    def expect_heartbeat(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._expel_after(
            timer_key("session", group_id, member_id), group_id, member_id, timeout_ms
        )

    def expect_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Runs the rebalance timeout while the member has partitions to give up."""
        key = timer_key("revoke", group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._timers.cancel(key)
            return
        member_id, member_epoch = member.member_id, member.member_epoch

        def operation(_: object, now_ms: int) -> Write[None]:
            group = self.find(group_id)
            current = None if group is None else group.members.get(member_id)
            if group is None or current is None or current.member_epoch != member_epoch:
                return Write(None)
            return self._remove([current], group, None, now_ms)

        self._timers.schedule(key, member.rebalance_timeout_ms, operation)

    def expect_join(self, group_id: str, member: ConsumerMember) -> None:
        """A classic member was told to rejoin. Telling it again does not extend its time."""
        key = timer_key("rejoin", group_id, member.member_id)
        if not self._timers.is_scheduled(key):
            self._expel_after(key, group_id, member.member_id, member.rebalance_timeout_ms)

    def joined(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(timer_key("rejoin", group_id, member_id))

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._expel_after(timer_key("resync", group_id, member_id), group_id, member_id, timeout_ms)

    def synced(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(timer_key("resync", group_id, member_id))

    def cancel_timers_of(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "revoke", "rejoin", "resync"):
            self._timers.cancel(timer_key(kind, group_id, member_id))

    def start_timers(self, group: ConsumerGroup) -> None:
        """After loading, all members get a full session to find the new coordinator."""
        for member in group.members.values():
            timeout_ms = self.session_timeout_ms(group.group_id)
            if member.classic is not None:
                timeout_ms = member.classic.session_timeout_ms
            self.expect_heartbeat(group.group_id, member.member_id, timeout_ms)
            if member.classic is None:
                self.expect_revocation(group.group_id, member)

    def _expel_after(self, key: str, group_id: str, member_id: str, timeout_ms: int) -> None:
        def operation(_: object, now_ms: int) -> Write[None]:
            group = self.find(group_id)
            member = None if group is None else group.members.get(member_id)
            if group is None or member is None:
                return Write(None)
            return self._remove([member], group, None, now_ms)

        self._timers.schedule(key, timeout_ms, operation)
