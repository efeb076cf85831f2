"""Assigns partitions to group members: the range and cooperative-sticky assignors. PURE.

A group's leader calls them through `membership.py`. Results are compatible with Kafka's clients, so
a group may mix clients.
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
    """A member's subscription. `owned` holds the partitions it has not given up."""

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
        """The partitions of each member. A missing topic counts 0."""
        ...


class RangeAssignor:
    """Gives each member adjacent partitions of each topic; the first members get one more."""

    name = "range"
    is_cooperative = False

    def assign(self, members: Sequence[Member], partition_counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member.member_id: [] for member in members}
        # Static members come first, by instance id, so that a restart does not move partitions.
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
    """Balances as evenly as subscriptions allow, with as few moves as possible.

    A moving partition is first assigned to nobody: its owner gives it up and the group rebalances
    again. All other partitions stay in use.
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
    """The current owner of each partition. The newest generation wins conflicting claims."""
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
        # Two claims of the same generation conflict: ignore both.
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
    """Moves partitions to even out the load. Every move does, so this terminates."""
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
