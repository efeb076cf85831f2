"""Who of a group reads which partition: the range and the cooperative-sticky assignor. PURE.

The leader of a group calls them through `membership.py`. Both give the same answers as Kafka's
clients would accept from each other, so a group may mix clients.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from floodmark.client.cluster.view import TopicPartition

Assignment = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Member:
    """What a member said when it joined; `owned` are the partitions it has not given up."""

    member_id: str
    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    group_instance_id: str | None = None


class Assignor(Protocol):
    name: str
    # Whether members keep their partitions while the group rebalances (KIP-429).
    is_cooperative: bool

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        """The partitions of each member; a topic that does not exist (yet) counts 0."""
        ...


class RangeAssignor:
    """Of each topic a run of neighbouring partitions per member, the first members get one more."""

    name = "range"
    is_cooperative = False

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        # Static members first and by their own name, so that a restart does not move partitions.
        ordered = sorted(
            members, key=lambda m: (m.group_instance_id is None, m.group_instance_id or m.member_id)
        )
        for topic in sorted(partition_counts):
            readers = [member.member_id for member in ordered if topic in member.topics]
            first = 0
            for position, member_id in enumerate(readers):
                share, extra = divmod(partition_counts[topic], len(readers))
                share += position < extra
                assignment[member_id] += [TopicPartition(topic, first + i) for i in range(share)]
                first += share
        return assignment


class CooperativeStickyAssignor:
    """As even as the subscriptions allow, with as few moves as possible.

    A partition that moves is given to nobody at first: its owner gives it up and the group
    rebalances once more, while everything else goes on being read.
    """

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        owners = _owners(members, partition_counts)
        balanced = _balance(members, partition_counts, owners)
        return {
            member_id: sorted(p for p in partitions if owners.get(p, member_id) == member_id)
            for member_id, partitions in balanced.items()
        }


ASSIGNORS: Mapping[str, type[Assignor]] = {
    assignor.name: assignor for assignor in (RangeAssignor, CooperativeStickyAssignor)
}


def _owners(
    members: Sequence[Member], partition_counts: Mapping[str, int]
) -> dict[TopicPartition, str]:
    """Who owns what now; of several that claim a partition the one of the newest generation."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for member in members:
        for partition in member.owned:
            exists = partition.partition < partition_counts.get(partition.topic, 0)
            if exists and partition.topic in member.topics:
                claims[partition].append((member.generation_id, member.member_id))
    owners: dict[TopicPartition, str] = {}
    for partition, claimants in claims.items():
        newest = max(generation_id for generation_id, _ in claimants)
        current = [member_id for generation_id, member_id in claimants if generation_id == newest]
        # Two claims of one generation contradict each other: neither counts.
        if len(current) == 1:
            owners[partition] = current[0]
    return owners


def _balance(
    members: Sequence[Member],
    partition_counts: Mapping[str, int],
    owners: Mapping[TopicPartition, str],
) -> dict[str, set[TopicPartition]]:
    held: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    readers = {
        topic: [member.member_id for member in members if topic in member.topics]
        for topic in partition_counts
    }
    for partition, member_id in owners.items():
        held[member_id].add(partition)
    unowned = [
        TopicPartition(topic, index)
        for topic in sorted(partition_counts, key=lambda topic: (len(readers[topic]), topic))
        for index in range(partition_counts[topic])
        if readers[topic] and TopicPartition(topic, index) not in owners
    ]
    for partition in unowned:
        held[_least_loaded(readers[partition.topic], held)].add(partition)
    while _move_some(readers, held):
        pass
    return held


def _move_some(
    readers: Mapping[str, Sequence[str]], held: Mapping[str, set[TopicPartition]]
) -> bool:
    """Move what makes the loads more even; each move does, so this comes to an end."""
    moved = False
    for giver in sorted(held, key=lambda member_id: -len(held[member_id])):
        for partition in sorted(held[giver], reverse=True):
            taker = _least_loaded(readers[partition.topic], held)
            if len(held[giver]) > len(held[taker]) + 1:
                held[giver].remove(partition)
                held[taker].add(partition)
                moved = True
    return moved


def _least_loaded(candidates: Sequence[str], held: Mapping[str, set[TopicPartition]]) -> str:
    return min(candidates, key=lambda member_id: (len(held[member_id]), member_id))
