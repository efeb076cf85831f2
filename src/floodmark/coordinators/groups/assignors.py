"""The server-side assignors, `uniform` and `range` (KIP-848). PURE.

Called by `consumer.py` when a group's epoch has changed. Both are deterministic and independent of
the input order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heapreplace
from typing import NamedTuple
from uuid import UUID

from floodmark.coordinators.groups.consumer_member import Assignment

Target = dict[str, dict[UUID, set[int]]]


class MemberSpec(NamedTuple):
    """What an assignor knows about a member: its subscription and previous target."""

    instance_id: str | None
    topic_ids: frozenset[UUID]
    current: Assignment


def assign_range(members: Mapping[str, MemberSpec], sizes: Mapping[UUID, int]) -> Target:
    """Gives each member a range of each topic, ordered by instance id and member id.

    Topics of equal size are split the same way, so that their partitions can be joined.
    """
    order = sorted(members, key=lambda m: (members[m].instance_id is None, _name(members, m)))
    target: Target = {member_id: {} for member_id in members}
    for topic_id, size in sizes.items():
        subscribers = [m for m in order if topic_id in members[m].topic_ids]
        if not subscribers:
            continue
        quota, extra = divmod(size, len(subscribers))
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + quota + (index < extra)
            if end > start:
                target[member_id][topic_id] = set(range(start, end))
            start = end
    return target


def assign_uniform(members: Mapping[str, MemberSpec], sizes: Mapping[UUID, int]) -> Target:
    """Gives each member the same number of partitions, and moves as few as possible."""
    balance = _Balance(members, sizes)
    if len({spec.topic_ids for spec in members.values()}) == 1:
        balance.release_above_quota()
        balance.assign_free()
    else:
        balance.assign_free()
        balance.level()
    return balance.target


ASSIGNORS: Mapping[str, Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], Target]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}


class _Balance:
    """An assignment in progress, with loads and owners."""

    def __init__(self, members: Mapping[str, MemberSpec], sizes: Mapping[UUID, int]) -> None:
        self._order = sorted(members)
        self._sizes = sizes
        self._subscribers: dict[UUID, list[str]] = {
            topic_id: [m for m in self._order if topic_id in members[m].topic_ids]
            for topic_id in sorted(sizes)
        }
        self._owner: dict[tuple[UUID, int], str] = {}
        self._load = dict.fromkeys(self._order, 0)
        self.target: Target = {member_id: {} for member_id in members}
        for member_id in self._order:
            self._keep(member_id, members[member_id])

    def _keep(self, member_id: str, spec: MemberSpec) -> None:
        for topic_id in sorted(spec.topic_ids & spec.current.keys()):
            size = self._sizes.get(topic_id, 0)
            for partition in sorted(spec.current[topic_id]):
                if partition < size and (topic_id, partition) not in self._owner:
                    self._give(topic_id, partition, member_id)

    def _give(self, topic_id: UUID, partition: int, member_id: str) -> None:
        self._owner[(topic_id, partition)] = member_id
        self._load[member_id] += 1
        self.target[member_id].setdefault(topic_id, set()).add(partition)

    def _take(self, topic_id: UUID, partition: int) -> None:
        member_id = self._owner.pop((topic_id, partition))
        self._load[member_id] -= 1
        partitions = self.target[member_id][topic_id]
        partitions.discard(partition)
        if not partitions:
            del self.target[member_id][topic_id]

    def release_above_quota(self) -> None:
        """With one subscription for all, the members with most may keep the extra partitions."""
        total = sum(self._sizes[topic_id] for topic_id in self._subscribers)
        quota, extra = divmod(total, len(self._order))
        for member_id in sorted(self._order, key=lambda m: (-self._load[m], m)):
            limit = quota
            if extra and self._load[member_id] > quota:
                limit, extra = quota + 1, extra - 1
            surplus = self._load[member_id] - limit
            for topic_id in sorted(self.target[member_id], reverse=True):
                for partition in sorted(self.target[member_id][topic_id], reverse=True):
                    if surplus <= 0:
                        break
                    self._take(topic_id, partition)
                    surplus -= 1

    def assign_free(self) -> None:
        """Starts with topics that have few subscribers, because they have the least choice."""
        topics = sorted(self._subscribers, key=lambda t: (len(self._subscribers[t]), t))
        for topic_id in topics:
            free = [p for p in range(self._sizes[topic_id]) if (topic_id, p) not in self._owner]
            heap = [(self._load[m], m) for m in self._subscribers[topic_id]]
            heapify(heap)
            for partition in free if heap else ():
                load, member_id = heap[0]
                self._give(topic_id, partition, member_id)
                heapreplace(heap, (load + 1, member_id))

    def level(self) -> None:
        """Moves partitions from a member that has two more than another eligible one.

        Every move reduces the sum of squares, so this terminates.
        """
        moved = True
        while moved:
            moved = False
            for topic_id, partition in sorted(self._owner):
                owner = self._owner[(topic_id, partition)]
                least = min(self._subscribers[topic_id], key=self._load.__getitem__)
                if self._load[owner] > self._load[least] + 1:
                    self._take(topic_id, partition)
                    self._give(topic_id, partition, least)
                    moved = True


def _name(members: Mapping[str, MemberSpec], member_id: str) -> str:
    return members[member_id].instance_id or member_id
