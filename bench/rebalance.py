"""Members of a group as raw clients: they join, sync and heartbeat as consumers do, no more.

Used by coordinator_cases.py. A member whose group has not told it anything heartbeats every
HEARTBEAT_SECONDS, so a rebalance is over soon after the broker has done its part.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import actors
import group_wire
import wire

HEARTBEAT_SECONDS = 0.02


@dataclass
class ClassicGroup:
    """What the members of one group know together: only a leader learns who is in a generation."""

    name: str
    topic: str
    partitions: int
    size_of: dict[int, int] = field(default_factory=dict)  # generation -> members

    def assignments(self, joined: group_wire.Joined) -> dict[str, bytes]:
        """An equal share of the partitions for everybody, if it is for the leader to say."""
        members = joined.member_ids
        if not members:
            return {}
        self.size_of[joined.generation_id] = len(members)
        return {
            member: group_wire.assignment(
                self.topic, list(range(at, self.partitions, len(members)))
            )
            for at, member in enumerate(members)
        }

    def is_balanced(self, members: list["ClassicMember"]) -> bool:
        """Whether all have their assignment in one generation that has nobody else in it."""
        generation_id = members[0].settled_generation
        return self.size_of.get(generation_id) == len(members) and all(
            member.settled_generation == generation_id for member in members
        )


class ClassicMember:
    """An actor: what it does next follows from the request that was answered."""

    def __init__(self, connection: wire.Connection, group: ClassicGroup) -> None:
        self.connection = connection
        self.group = group
        self.member_id = ""
        self.generation_id = self.settled_generation = -1
        self.wake_at: float | None = None
        self._metadata = group_wire.subscription(group.topic)
        self._then: Callable[[bytes], bytearray | None] = self._joined

    def answered(self, answer: bytes) -> bytearray | None:
        return self._then(answer)

    def woken(self) -> bytearray:
        self._then = self._heard
        return group_wire.heartbeat(self.group.name, self.generation_id, self.member_id)

    def join(self) -> bytearray:
        self.settled_generation = -1
        self._then = self._joined
        return group_wire.join_group(self.group.name, self.member_id, self._metadata)

    def leave(self) -> None:
        answer = self.connection.call(group_wire.leave_group(self.group.name, self.member_id))
        if group_wire.error_code_of(answer):
            raise wire.Refused("LeaveGroup was refused")
        self.member_id, self.settled_generation, self.wake_at = "", -1, None

    def join_with_id(self, answer: bytes) -> bytearray:
        self.member_id = group_wire.joined(answer).member_id
        return self.join()

    def _joined(self, answer: bytes) -> bytearray:
        joined = group_wire.joined(answer)
        if joined.error_code == group_wire.MEMBER_ID_REQUIRED:
            return self.join_with_id(answer)
        if joined.error_code:
            raise wire.Refused(f"JoinGroup answered error {joined.error_code}")
        self.generation_id, self._then = joined.generation_id, self._synced
        return group_wire.sync_group(
            self.group.name, self.generation_id, self.member_id, self.group.assignments(joined)
        )

    def _synced(self, answer: bytes) -> bytearray | None:
        if self._must_join_again(answer):
            return self.join()
        self.settled_generation = self.generation_id
        self.wake_at = time.perf_counter() + HEARTBEAT_SECONDS
        return None

    def _heard(self, answer: bytes) -> bytearray | None:
        if self._must_join_again(answer):
            return self.join()
        self.wake_at = time.perf_counter() + HEARTBEAT_SECONDS
        return None

    def _must_join_again(self, answer: bytes) -> bool:
        error_code = group_wire.error_code_of(answer)
        if error_code not in (wire.NO_ERROR, group_wire.REBALANCE_IN_PROGRESS):
            raise wire.Refused(f"a member was answered error {error_code}")
        return error_code != wire.NO_ERROR


def seconds_until_balanced(members: list[ClassicMember], starting: list[ClassicMember]) -> float:
    """`starting` join; the others hear of it from their heartbeats, which are due at once."""
    group = members[0].group
    start = time.perf_counter()
    for member in starting:
        member.connection.send(member.join())
    if len(starting) < len(members):
        # A first join only brings a member id: the group hears of the member by the second.
        for member in starting:
            member.connection.send(member.join_with_id(member.connection.receive()))
    for member in members:
        if member not in starting:
            member.settled_generation = -1
            member.wake_at = start
    actors.run(members, lambda: group.is_balanced(members))
    elapsed = time.perf_counter() - start
    settle(members)
    return elapsed


def settle(members: list[ClassicMember]) -> None:
    """Take in the answers of heartbeats that are still under way, and send no more."""
    for member in members:
        if member.wake_at is None:
            member.answered(member.connection.receive())
        member.wake_at = None


class ConsumerMember:
    """A member of a KIP-848 group: the broker assigns, and heartbeats say what it has taken."""

    def __init__(
        self, connection: wire.Connection, group: str, name: str, topic: str, topic_id: bytes
    ) -> None:
        self.connection = connection
        self.partitions: list[int] = []
        self.wake_at: float | None = None
        self._group, self._name, self._topic, self._topic_id = group, name, topic, topic_id
        self._member_epoch = 0
        self._has_changed = False

    def join(self) -> bytearray:
        return group_wire.first_consumer_heartbeat(self._group, self._name, self._topic)

    def leave(self) -> None:
        request = group_wire.consumer_heartbeat(self._group, self._name, -1, self._topic_id, None)
        error_code, _, _ = group_wire.consumer_heartbeat_answer(self.connection.call(request))
        if error_code:
            raise wire.Refused(f"leaving answered error {error_code}")
        self.partitions, self._member_epoch, self.wake_at = [], 0, None

    def answered(self, answer: bytes) -> bytearray | None:
        self.take_in(answer)
        if self._has_changed:
            return self.woken()  # a consumer tells at once what it took or gave up
        self.wake_at = time.perf_counter() + HEARTBEAT_SECONDS
        return None

    def take_in(self, answer: bytes) -> None:
        error_code, self._member_epoch, partitions = group_wire.consumer_heartbeat_answer(answer)
        if error_code:
            raise wire.Refused(f"ConsumerGroupHeartbeat answered error {error_code}")
        if partitions is not None:
            self.partitions, self._has_changed = partitions, True

    def woken(self) -> bytearray:
        owned = self.partitions if self._has_changed else None
        self._has_changed = False
        return group_wire.consumer_heartbeat(
            self._group, self._name, self._member_epoch, self._topic_id, owned
        )


def seconds_until_spread(
    members: list[ConsumerMember], starting: list[ConsumerMember], partitions: int
) -> float:
    """Until the members have equal shares of all partitions."""
    start = time.perf_counter()
    for member in starting:
        member.connection.send(member.join())
    for member in members:
        if member not in starting:
            member.wake_at = start
    share = partitions // len(members)

    def is_spread() -> bool:
        owned = {partition for member in members for partition in member.partitions}
        return len(owned) == partitions and all(
            share <= len(member.partitions) <= share + 1 for member in members
        )

    actors.run(members, is_spread)
    elapsed = time.perf_counter() - start
    for member in members:
        if member.wake_at is None:
            member.take_in(member.connection.receive())
        member.wake_at = None
    return elapsed
