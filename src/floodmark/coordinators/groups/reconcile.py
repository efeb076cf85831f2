"""Moves a member one step towards its target assignment (KIP-848). PURE.

A member first gives up partitions in its old epoch. Then it moves to the target's epoch and gets
those that are free. It gets the others later, once their holders have given them up. So no
partition ever belongs to two members.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from uuid import UUID

from floodmark.coordinators.groups.consumer_member import (
    Assignment,
    ConsumerMember,
    MemberState,
    Owned,
)
from floodmark.coordinators.ports import CoordinatorError
from floodmark.wire.errors import ErrorCode


class Reconciliation:
    """`reported` is what the member says it owns; None if it reports no change."""

    def __init__(
        self,
        member: ConsumerMember,
        target_epoch: int,
        target: Assignment,
        *,
        subscribed_ids: Set[UUID],
        subscription_changed: bool,
        owners: Mapping[tuple[UUID, int], str],
        reported: Assignment | None,
    ) -> None:
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._subscribed_ids = subscribed_ids
        self._subscription_changed = subscription_changed
        self._owners = owners
        self._reported = reported

    def step(self) -> ConsumerMember:
        member = self._member
        if member.state is MemberState.STABLE and member.member_epoch == self._target_epoch:
            return self._drop_unsubscribed() if self._subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(
            member.pending_revocation
        ):
            return self._drop_unsubscribed() if self._subscription_changed else member
        if member.state is MemberState.UNKNOWN and self._reported != {}:
            raise CoordinatorError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member's state is unknown here. It must give up its partitions and rejoin.",
            )
        return self._approach_target()

    def _still_owns(self, owned: Owned) -> bool:
        if self._reported is None:
            return True
        return any(
            not partitions.isdisjoint(owned.get(topic_id, {}))
            for topic_id, partitions in self._reported.items()
        )

    def _drop_unsubscribed(self) -> ConsumerMember:
        """A member gives up unsubscribed topics immediately, whatever the target says."""
        member = self._member
        kept = {t: p for t, p in member.assigned.items() if t in self._subscribed_ids}
        if len(kept) == len(member.assigned):
            return member
        revoked: dict[UUID, Mapping[int, int]] = dict(member.pending_revocation)
        for topic_id, partitions in member.assigned.items():
            if topic_id not in kept:
                revoked[topic_id] = {**revoked.get(topic_id, {}), **partitions}
        if self._still_owns(revoked):
            return _revoking(member, kept, revoked)
        return replace(member, previous_member_epoch=member.member_epoch, assigned=kept)

    def _approach_target(self) -> ConsumerMember:
        member = self._member
        kept: dict[UUID, dict[int, int]] = {}
        revoked: dict[UUID, dict[int, int]] = {}
        for topic_id, partitions in member.assigned.items():
            wanted = self._wanted(topic_id)
            for partition, assignment_epoch in partitions.items():
                side = kept if partition in wanted else revoked
                side.setdefault(topic_id, {})[partition] = assignment_epoch
        if revoked and self._still_owns(revoked):
            return _revoking(member, kept, revoked)
        is_complete = self._add_free(kept)
        return replace(
            member,
            state=MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS,
            previous_member_epoch=member.member_epoch,
            member_epoch=self._target_epoch,
            assigned=kept,
            pending_revocation={},
        )

    def _wanted(self, topic_id: UUID) -> frozenset[int]:
        if topic_id not in self._subscribed_ids:
            return frozenset()
        return self._target.get(topic_id, frozenset())

    def _add_free(self, kept: dict[UUID, dict[int, int]]) -> bool:
        """Takes partitions that nobody else holds. Returns False if some are held.

        A partition that this member itself was giving up counts as free.
        """
        is_complete = True
        for topic_id in self._target:
            own = self._member.pending_revocation.get(topic_id, {})
            have = kept.get(topic_id, {})
            free = []
            for partition in self._wanted(topic_id):
                if partition in have:
                    continue
                if (topic_id, partition) in self._owners and partition not in own:
                    is_complete = False
                else:
                    free.append(partition)
            if free:
                topic = kept.setdefault(topic_id, {})
                topic.update(dict.fromkeys(sorted(free), self._target_epoch))
        return is_complete


def _revoking(
    member: ConsumerMember,
    kept: Mapping[UUID, Mapping[int, int]],
    revoked: Mapping[UUID, Mapping[int, int]],
) -> ConsumerMember:
    """The member stays in its epoch until it has given these up."""
    return replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_member_epoch=member.member_epoch,
        assigned=kept,
        pending_revocation=revoked,
    )
