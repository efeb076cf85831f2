"""One group whose members speak either protocol, so that it moves between the two all the time.

Whatever happens, no partition is consumed by two clients, whoever owns a partition can commit for
it, a new owner begins where that commit left off, and once the trouble ends all is shared.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from floodmark.coordinators.groups.classic_group import ClassicGroup
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.settings import GroupSettings
from floodmark.promise import Promise
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from floodmark.wire.internal.framing import decode_versioned, encode_versioned
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from floodmark.wire.messages.heartbeat import HeartbeatRequest
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from floodmark.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from floodmark.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kit.flushed import COMMITS_LATER
from kit.group_bench import GroupBench, now, topic_image
from kit.loop_machine import LoopMachine

CLIENT = Client("app", "/h", 9)
CONSUMER_CLIENT = Client("app", "/h", 1)
TOPIC_ID = UUID(int=1)
PARTITIONS = 6
CLASSIC_SESSION_MS = 10_000
CONSUMER_SESSION_MS = 45_000
MOST_CLIENTS = 4
STARTS_AGAIN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Member:
    """A client of either protocol: it consumes what it was given until it has to give it up."""

    session_ms = CONSUMER_SESSION_MS

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        """The member epoch, or the generation."""
        self.positions: dict[int, int] = {}
        """What it owns, and which record of it comes next."""
        self.heard_ms = 0
        self.must_say_all = True

    def lose_all(self) -> None:
        """It was expelled, or must think so."""
        self.epoch, self.positions, self.must_say_all = 0, {}, True


class ClassicMember(Member):
    """A cooperative one: it keeps what it owns while it joins again."""

    session_ms = CLASSIC_SESSION_MS

    def __init__(self) -> None:
        super().__init__("")
        self.wants = "join"
        self.waiting: tuple[str, Any] | None = None
        self.others: dict[str, set[int]] = {}
        """What each member owns, for who leads."""
        self.is_behind = False

    def lose_all(self) -> None:
        super().lose_all()
        self.epoch, self.wants = -1, "join"


class ProtocolChangeMachine(LoopMachine):
    def __init__(self) -> None:
        super().__init__()
        at_once = GroupSettings(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0)
        self.bench = self.run(GroupBench, at_once, commits_later=COMMITS_LATER)
        self.run(self.bench.set_topics, topic_image("t", PARTITIONS, 1))
        self.members: list[Member] = []
        self.names = 0
        self.committed = dict.fromkeys(range(PARTITIONS), 0)
        self.was_consumer = False
        self.moved_back_in = -1
        """The last generation in which the group became classic."""

    def teardown(self) -> None:
        self.settle()
        self.run(self.bench.service.close)
        super().teardown()

    def act(self, member: Member) -> None:
        if isinstance(member, ClassicMember):
            self.act_classic(member)
        else:
            self.obey_beat(member, self.send_beat(member))

    def own(self, member: Member, partitions: set[int]) -> None:
        """Commit, give up, and begin what is new where its last owner left off."""
        if member.positions.keys() - partitions:
            self.commit(member)
        positions = {p: at for p, at in member.positions.items() if p in partitions}
        added = sorted(partitions - positions.keys())
        if added:
            found = self.fetch_committed(added)
            assert found == {p: self.committed[p] for p in added}
            positions.update(found)
        member.positions = positions

    # The consumer protocol

    def send_beat(self, member: Member, epoch: int | None = None) -> ConsumerGroupHeartbeatResponse:
        is_full = member.epoch == 0 or member.must_say_all
        owned = [RequestTopicPartitions(topic_id=TOPIC_ID, partitions=sorted(member.positions))]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member.member_id,
            member_epoch=member.epoch if epoch is None else epoch,
            rebalance_timeout_ms=60_000 if is_full else -1,
            subscribed_topic_names=["t"] if is_full else None,
            topic_partitions=owned if member.positions else [],
        )
        service = self.bench.service
        answer: ConsumerGroupHeartbeatResponse = now(
            self.run(service.consumer_group_heartbeat, CONSUMER_CLIENT, request)
        )
        return answer

    def obey_beat(self, member: Member, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code in STARTS_AGAIN:
            member.lose_all()
            return
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        member.must_say_all = False
        member.heard_ms = self.bench.clock.now_ms()
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.own(member, {p for topic in topics for p in topic.partitions})
        member.epoch = answer.member_epoch

    # The classic protocol

    def act_classic(self, member: ClassicMember) -> None:
        """Take the answer that has come, or send the next request."""
        if member.waiting is None:
            kind = member.wants
            member.waiting = (kind, self.run(getattr(self, f"send_{kind}"), member))
            member.heard_ms = self.bench.clock.now_ms()
        kind, outcome = member.waiting
        if isinstance(outcome, Promise):
            if not outcome.is_kept:
                return
            outcome = outcome.now_or_later()
        member.waiting = None
        self.obey_classic(member, kind, outcome)

    def send_join(self, member: ClassicMember) -> Any:
        owned = SubscriptionTopicPartition(topic="t", partitions=sorted(member.positions))
        subscription = ConsumerProtocolSubscription(
            topics=["t"],
            owned_partitions=[owned] if member.positions else [],
            generation_id=member.epoch,
        )
        protocol = JoinGroupRequestProtocol(
            name="cooperative-sticky", metadata=encode_versioned(subscription, 3)
        )
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=30_000,
            member_id=member.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        return self.bench.service.join_group(CLIENT, request)

    def send_sync(self, member: ClassicMember) -> Any:
        assignments = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_share(share))
            for member_id, share in cooperative_shares(member.others).items()
        ]
        request = SyncGroupRequest(
            group_id="g",
            generation_id=member.epoch,
            member_id=member.member_id,
            assignments=assignments,
        )
        return self.bench.service.sync_group(request)

    def send_heartbeat(self, member: ClassicMember) -> Any:
        request = HeartbeatRequest(
            group_id="g", generation_id=member.epoch, member_id=member.member_id
        )
        return self.bench.service.heartbeat(request)

    def obey_classic(self, member: ClassicMember, kind: str, answer: Any) -> None:
        error_code = ErrorCode(answer.error_code)
        if error_code is ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
        elif error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            member.wants = "join"
        elif error_code is ErrorCode.NOT_COORDINATOR:
            member.wants = "join" if kind == "join" else member.wants
        elif error_code is not ErrorCode.NONE:
            assert error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
            member.lose_all()
            if error_code is ErrorCode.UNKNOWN_MEMBER_ID:
                member.member_id = ""
        elif kind == "join":
            member.member_id, member.epoch = answer.member_id, answer.generation_id
            member.is_behind = False
            member.others = {m.member_id: decode_owned(m.metadata) for m in answer.members}
            member.wants = "sync"
        elif kind == "sync":
            before = member.positions.keys()
            share = decode_share(answer.assignment)
            # Whoever gave something up says so at once: by joining again.
            member.wants = "join" if before - share else "heartbeat"
            self.own(member, share)

    # Offsets

    def commit(self, member: Member) -> None:
        partitions = [
            OffsetCommitRequestPartition(partition_index=p, committed_offset=at)
            for p, at in member.positions.items()
        ]
        request = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=member.epoch,
            member_id=member.member_id,
            topics=[OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)],
        )
        answer = now(self.run(self.bench.service.commit_offsets, 9, request))
        error_codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        if error_codes == {ErrorCode.NONE}:
            self.committed.update(member.positions)
            return
        assert isinstance(member, ClassicMember), error_codes
        assert member.is_behind, error_codes
        member.lose_all()

    def fetch_committed(self, partitions: list[int]) -> dict[int, int]:
        request = OffsetFetchRequestGroup(
            group_id="g",
            topics=[OffsetFetchRequestTopics(name="t", partition_indexes=partitions)],
        )
        answer = now(self.run(self.bench.service.fetch_offsets, request, require_stable=True))
        return {
            p.partition_index: max(0, p.committed_offset)
            for topic in answer.topics
            for p in topic.partitions
        }

    # What happens

    def pick(self, index: int) -> Member:
        return self.members[index % len(self.members)]

    @initialize()
    def begin(self) -> None:
        """With a classic member that has everything."""
        self.start(is_classic=True, times=4)

    @precondition(lambda self: len(self.members) < MOST_CLIENTS)
    @rule(is_classic=st.booleans(), times=st.integers(1, 4))
    def start(self, is_classic: bool, times: int) -> None:
        self.names += 1
        self.members.append(ClassicMember() if is_classic else Member(f"m{self.names}"))
        for _ in range(times):
            self.act(self.members[-1])

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9), times=st.integers(1, 4))
    def step(self, index: int, times: int) -> None:
        for _ in range(times):
            self.act(self.pick(index))

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def answer_is_lost(self, index: int) -> None:
        member = self.pick(index)
        if not isinstance(member, ClassicMember):
            self.send_beat(member)
            member.must_say_all = True
        elif member.waiting is None and member.member_id:
            self.run(getattr(self, f"send_{member.wants}"), member)
            if member.wants == "sync":
                member.wants = "join"

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def consume(self, index: int) -> None:
        """Who is joining reads on, but commits when it knows its generation."""
        member = self.pick(index)
        member.positions = {p: at + 1 for p, at in member.positions.items()}
        is_joining = isinstance(member, ClassicMember) and (
            member.wants != "heartbeat" or member.waiting is not None
        )
        if member.positions and not is_joining:
            self.commit(member)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def leave(self, index: int) -> None:
        member = self.pick(index)
        self.members.remove(member)
        if isinstance(member, ClassicMember):
            identity = MemberIdentity(member_id=member.member_id)
            request = LeaveGroupRequest(group_id="g", members=[identity])
            self.run(self.bench.service.leave_group, request)
        elif member.epoch:
            self.send_beat(member, epoch=-1)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 9))
    def crash(self, index: int) -> None:
        self.members.remove(self.pick(index))

    @rule(seconds=st.integers(1, 8))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            for member in self.members:
                if isinstance(member, ClassicMember) and member.waiting is not None:
                    # Its session does not run while it waits.
                    member.heard_ms = self.bench.clock.now_ms()
            self.run(self.bench.advance, 1000)
            for member in self.members:
                if self.silent_ms(member) >= member.session_ms - 1000:
                    # Whoever cannot reach the coordinator stops before it is expelled.
                    member.lose_all()

    @rule()
    def failover(self) -> None:
        """Not between a move back and the generation that shares what the leaver had: a classic
        group is loaded as if it were stable, in Kafka as well, and then nobody would get that."""
        group = self.bench.group("g")
        if not isinstance(group, ClassicGroup) or group.generation_id != self.moved_back_in:
            self.run(self.bench.reload)

    def silent_ms(self, member: Member) -> int:
        return self.bench.clock.now_ms() - member.heard_ms

    # What must hold

    @invariant()
    def note_moves(self) -> None:
        """A classic group has one generation. Whoever had an older member epoch when the group
        became classic has lost its place, in Kafka as well."""
        group = self.bench.group("g")
        if isinstance(group, ClassicGroup):
            if self.was_consumer:
                self.moved_back_in = group.generation_id
            for member in self.members:
                if isinstance(member, ClassicMember):
                    member.is_behind |= member.epoch < group.generation_id
        self.was_consumer = isinstance(group, ConsumerGroup)

    @invariant()
    def no_partition_is_consumed_twice(self) -> None:
        owned = [p for member in self.members for p in member.positions]
        assert len(owned) == len(set(owned)), [m.positions for m in self.members]

    @invariant()
    def whoever_consumes_is_a_member(self) -> None:
        group = self.bench.group("g")
        for member in self.members:
            assert not member.positions or member.member_id in group.members

    def settle(self) -> None:
        """The trouble ends: crashed members are expelled, all others go on."""
        for _ in range(30):
            for member in self.members:
                for _ in range(4):
                    self.act(member)
            self.time_passes(2)
        shares = [len(member.positions) for member in self.members]
        assert not shares or (sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1)


def cooperative_shares(owned: dict[str, set[int]]) -> dict[str, set[int]]:
    """Even and sticky; but what one gives up, another gets in the next rebalance."""
    if not owned:
        return {}
    shares: dict[str, set[int]] = {member_id: set() for member_id in owned}
    free = set(range(PARTITIONS))
    most = -(-PARTITIONS // len(owned))
    for member_id in sorted(owned):
        shares[member_id] = set(sorted(owned[member_id] & free)[:most])
        free -= shares[member_id]
    for partition in sorted(free):
        shares[min(shares, key=lambda m: (len(shares[m]), m))].add(partition)
    while True:
        least = min(shares, key=lambda m: (len(shares[m]), m))
        largest = max(shares, key=lambda m: (len(shares[m]), m))
        if len(shares[largest]) - len(shares[least]) <= 1:
            break
        shares[least].add(shares[largest].pop())
    return {
        member_id: share.difference(*(owned[m] for m in owned if m != member_id))
        for member_id, share in shares.items()
    }


def encode_share(share: set[int]) -> bytes:
    topic = AssignmentTopicPartition(topic="t", partitions=sorted(share))
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[topic]), 3)


def decode_share(assignment: bytes) -> set[int]:
    if not assignment:
        return set()
    message = decode_versioned(ConsumerProtocolAssignment, assignment)
    return {p for topic in message.assigned_partitions for p in topic.partitions}


def decode_owned(metadata: bytes) -> set[int]:
    message = decode_versioned(ConsumerProtocolSubscription, metadata)
    return {p for topic in message.owned_partitions for p in topic.partitions}


ProtocolChangeMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, print_blob=True
)
test_groups_change_their_protocol = ProtocolChangeMachine.TestCase
