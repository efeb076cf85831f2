"""A consumer group member's requests to its coordinator: join, sync, heartbeat, leave.

Belongs to `group.py`, which decides when. Implements the classic protocol: the group's leader
assigns partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator_once
from floodmark.client.cluster.view import TopicPartition
from floodmark.client.consumer.assignors import ASSIGNORS, Assignment, Assignor
from floodmark.client.consumer.group_offsets import NO_GENERATION, GroupMetadata
from floodmark.client.consumer.group_protocol import (
    encode_assignment,
    encode_subscription,
    read_assignment,
    read_member,
)
from floodmark.client.errors import KafkaError, raise_for_code
from floodmark.client.settings import ConsumerSettings
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from floodmark.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from floodmark.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from floodmark.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

logger = logging.getLogger(__name__)

PROTOCOL_TYPE = "consumer"
FIRST_LEAVE_WITH_MEMBERS = 3
# Extra time for a join beyond the rebalance timeout before the connection counts as dead.
JOIN_GRACE_MS = 5_000
# A healthy coordinator keeps a join until the whole group has joined, which takes a few seconds.
USUAL_JOIN_MS = 10_000
# A join may wait long, so it has a connection of its own.
JOIN = "-join"

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
# The coordinator dropped the member: it must rejoin and has lost its partitions.
DROPPED_CODES = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


@dataclass(frozen=True, slots=True)
class Joined:
    """The outcome of a rebalance for this member."""

    assigned: frozenset[TopicPartition]
    # The partition counts the leader used. When they change, it asks for a rebalance.
    partition_counts: Mapping[str, int] | None
    lost_ownership: bool
    generation_id: int


class Membership:
    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        assert settings.group_id is not None
        self.group_id = settings.group_id
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.assignors: list[Assignor] = [ASSIGNORS[name]() for name in settings.assignors]
        self._cluster = cluster
        self._settings = settings
        # A request may wait in the coordinator until the whole group has joined. Members that
        # share a cluster must not wait for each other.
        self.purpose = f"-member-{id(self)}"

    @property
    def metadata(self) -> GroupMetadata:
        """The identity under which this member commits."""
        return GroupMetadata(
            self.group_id, self.generation_id, self.member_id, self._settings.group_instance_id
        )

    @property
    def is_cooperative(self) -> bool:
        """Partitions survive a rebalance only if every assignor that may win is cooperative."""
        return all(assignor.is_cooperative for assignor in self.assignors)

    @property
    def has_joined(self) -> bool:
        return self.generation_id != NO_GENERATION

    def reset(self) -> None:
        """Forgets the membership."""
        self.member_id = ""
        self.generation_id = NO_GENERATION

    def drop(self, error: KafkaError) -> None:
        """The group moved on without this member, though it may still know the member id."""
        self.generation_id = NO_GENERATION
        if error.code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""

    async def join(self, topics: Iterable[str], owned: Iterable[TopicPartition]) -> Joined:
        """Joins until the group has settled with this member. Raises permanent errors."""
        wanted, kept = sorted(topics), sorted(owned)
        lost = False
        failures = 0
        while True:
            try:
                response = await self._join_once(wanted, kept)
                counts, assignment = await self._assign_if_leader(response)
                assigned = await self._sync(response, assignment)
                return Joined(frozenset(assigned), counts, lost, response.generation_id)
            except KafkaError as error:
                if error.code in DROPPED_CODES:
                    self.drop(error)
                    lost, kept = True, []
                elif error.code not in (ErrorCode.MEMBER_ID_REQUIRED, REBALANCE):
                    if not error.retriable:
                        raise
                    failures += 1
                    if failures == 1:
                        logger.warning("cannot join group %s yet: %s", self.group_id, error)
                    await asyncio.sleep(self._cluster.delay_ms(error, failures) / 1000)

    async def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        timeout_ms = min(self._settings.session_timeout_ms, self._settings.request_timeout_ms)
        response: HeartbeatResponse = await self._ask(request, timeout_ms=timeout_ms)
        raise_for_code(response.error_code)

    async def leave(self, reason: str) -> None:
        """Gives up the partitions at once. A static member keeps them until its session ends."""
        if not self.member_id or self._settings.group_instance_id is not None:
            self.reset()
            return
        member = MemberIdentity(member_id=self.member_id, reason=reason)
        member_id = self.member_id
        self.reset()

        async def ask(connection: Connection) -> None:
            with_members = connection.version_for(LeaveGroupRequest) >= FIRST_LEAVE_WITH_MEMBERS
            response: LeaveGroupResponse = await connection.request(
                LeaveGroupRequest(
                    group_id=self.group_id,
                    member_id="" if with_members else member_id,
                    members=[member] if with_members else [],
                )
            )
            raise_for_code(response.error_code)

        try:
            await self._ask_by(ask)
        except KafkaError as error:
            # The coordinator will expire its session.
            logger.info("could not tell group %s that we left: %s", self.group_id, error)

    async def close(self) -> None:
        """Closes this member's connections, which the cluster would keep for others to use."""
        await self._cluster.close_coordinator_connections(
            CoordinatorType.GROUP, (self.purpose, self.purpose + JOIN)
        )

    # --- inside ---

    async def _join_once(
        self, topics: Sequence[str], owned: Sequence[TopicPartition]
    ) -> JoinGroupResponse:
        rebalance_timeout_ms = self._settings.max_poll_interval_ms
        subscription = encode_subscription(topics, owned, self.generation_id)
        response: JoinGroupResponse = await self._ask(
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=self._settings.session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                member_id=self.member_id,
                group_instance_id=self._settings.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[
                    JoinGroupRequestProtocol(name=assignor.name, metadata=subscription)
                    for assignor in self.assignors
                ],
            ),
            timeout_ms=max(self._settings.request_timeout_ms, rebalance_timeout_ms + JOIN_GRACE_MS),
            purpose=JOIN,
            usual_ms=USUAL_JOIN_MS,
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        raise_for_code(response.error_code)
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        return response

    async def _assign_if_leader(
        self, response: JoinGroupResponse
    ) -> tuple[Mapping[str, int] | None, Assignment]:
        """Everyone's assignment. Empty unless this member is the leader."""
        if response.leader != response.member_id:
            return None, {}
        members = [
            read_member(member.member_id, member.metadata, member.group_instance_id)
            for member in response.members
        ]
        topics = frozenset[str]().union(*(member.topics for member in members))
        self._cluster.want_topics(topics)
        await self._cluster.refresh()
        counts = {topic: self._cluster.view.partition_count(topic) for topic in topics}
        if response.skip_assignment:
            # A returning static leader: the group keeps its assignment (KIP-814).
            return counts, {}
        assignor = next(a for a in self.assignors if a.name == response.protocol_name)
        return counts, assignor.assign(members, counts)

    async def _sync(
        self, joined: JoinGroupResponse, assignment: Assignment
    ) -> list[TopicPartition]:
        response: SyncGroupResponse = await self._ask(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self._settings.group_instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=joined.protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(
                        member_id=member_id, assignment=encode_assignment(partitions)
                    )
                    for member_id, partitions in assignment.items()
                ],
            ),
            timeout_ms=self._settings.max_poll_interval_ms + JOIN_GRACE_MS,
            purpose=JOIN,
            usual_ms=USUAL_JOIN_MS,
        )
        raise_for_code(response.error_code)
        return read_assignment(response.assignment)

    async def _ask(
        self, request: Any, *, timeout_ms: float, purpose: str = "", usual_ms: float = 0
    ) -> Any:
        async def ask(connection: Connection) -> Any:
            return await connection.request(request, timeout_ms=timeout_ms)

        return await self._ask_by(ask, purpose, usual_ms)

    async def _ask_by(self, ask: Any, purpose: str = "", usual_ms: float = 0) -> Any:
        return await ask_coordinator_once(
            self._cluster,
            CoordinatorType.GROUP,
            self.group_id,
            ask,
            purpose=self.purpose + purpose,
            usual_ms=usual_ms,
        )
