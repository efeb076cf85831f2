"""The group coordinator's interface for the APIs: one method per API.

Created by `broker.coordinators`, which reports the partitions of `__consumer_offsets` it leads
(`load`, `unload`) and metadata changes. Every method responds immediately if it can, otherwise
with a promise. Errors are responses too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from floodmark.clock import Clock
from floodmark.coordinators.client_errors import client_code
from floodmark.coordinators.groups import offset_requests
from floodmark.coordinators.groups.classic_join import leaves_room_for_id
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.heartbeat_rules import check_heartbeat
from floodmark.coordinators.groups.offsets import Topics
from floodmark.coordinators.groups.settings import GroupSettings, Surroundings
from floodmark.coordinators.groups.shard import GroupShard
from floodmark.coordinators.groups.subscriptions import NOTHING_MATCHED, match_all
from floodmark.coordinators.java_hash import partition_for
from floodmark.coordinators.ports import (
    CoordinatorError,
    CoordinatorLog,
    GuardedAppend,
    NotCoordinator,
)
from floodmark.coordinators.runtime import CoordinatorRuntime
from floodmark.metadata.image import Delta, MetadataImage, TopicImage
from floodmark.promise import Promise
from floodmark.records.compression import Compression
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.consumer_group_describe import DescribedGroup as ConsumerDescription
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from floodmark.wire.messages.delete_groups import DeletableGroupResult
from floodmark.wire.messages.describe_groups import DescribedGroup
from floodmark.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from floodmark.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from floodmark.wire.messages.list_groups import ListedGroup
from floodmark.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from floodmark.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from floodmark.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from floodmark.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

Later: TypeAlias = Promise[T] | Coroutine[Any, Any, T | Promise[T]]

MATCHES_AT_ONCE = 20
"""How many names to match on the loop. A pattern can take some milliseconds for each of them; more
are matched in a thread, because RE2 releases the GIL."""

MATCHING_TRIES = 3
"""How often to match again because topics came or went meanwhile."""


class GroupService:
    def __init__(
        self,
        log: CoordinatorLog,
        clock: Clock,
        settings: GroupSettings,
        *,
        compression: Compression = Compression.NONE,
        new_uuid: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self.surroundings = Surroundings(settings, new_uuid)
        self.log = log
        self._clock = clock
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            log,
            clock,
            lambda _, timers: GroupShard(timers, self.surroundings),
            compression=compression,
        )

    # The broker's side

    def load(self, partition: int) -> None:
        self.runtime.load(partition)

    def unload(self, partition: int) -> None:
        self.runtime.unload(partition)

    def close(self) -> None:
        self.runtime.close()

    def settings_changed(self, settings: GroupSettings) -> None:
        self.surroundings.settings = settings

    def metadata_changed(self, image: MetadataImage, delta: Delta) -> None:
        self.surroundings.image = image
        has_grown = any(change.old is None for change in delta.changed_partitions)
        if delta.created_topics or delta.deleted_topics or has_grown:
            self.surroundings.topics_version += 1
        if delta.deleted_topics:
            for partition in self.runtime.active_partitions:
                self._delete_offsets_of(delta.deleted_topics, partition)

    def _delete_offsets_of(self, topics: Sequence[TopicImage], partition: int) -> None:
        def failed(error: CoordinatorError) -> None:
            if isinstance(error, NotCoordinator):
                # The partition's new leader, if it still exists, sees the deletion too.
                return
            logger.error(
                "%s-%d keeps offsets of deleted topics (%s): %s",
                self.log.topic,
                partition,
                ", ".join(topic.name for topic in topics),
                error,
            )

        self.runtime.submit(partition, lambda shard, _: shard.topics_deleted(topics), failed)

    def marker(
        self, partition: int, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """A transaction marker was just appended to this partition of the offsets topic."""
        self.runtime.marker(partition, producer_id, producer_epoch, committed=committed)

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, self.log.partition_count)

    def committed(self) -> list[tuple[str, int, Topics]]:
        """Every group coordinated here: its id, its members, its committed offsets.

        For metrics. The offsets are not copied, so commits change them once the loop continues.
        """
        shards = [self.runtime.shard(partition) for partition in self.runtime.active_partitions]
        return [
            (group_id, len(group.members), shard.offsets.topics(group_id))
            for shard in shards
            for group_id, group in shard.groups.items()
        ]

    # Membership

    def join_group(
        self, client: Client, request: JoinGroupRequest
    ) -> JoinGroupResponse | Later[JoinGroupResponse]:
        settings = self.surroundings.settings
        timeout_ms = request.session_timeout_ms

        def refuse(error_code: ErrorCode) -> JoinGroupResponse:
            return JoinGroupResponse(error_code=error_code, member_id=request.member_id)

        if not request.group_id:
            return refuse(ErrorCode.INVALID_GROUP_ID)
        if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            return refuse(ErrorCode.INVALID_SESSION_TIMEOUT)
        if not request.member_id and not leaves_room_for_id(client, request):
            return refuse(ErrorCode.UNKNOWN_SERVER_ERROR)

        def join() -> JoinGroupResponse | Promise[JoinGroupResponse]:
            reply: Promise[JoinGroupResponse] = Promise()
            self.runtime.submit(
                self.partition_of(request.group_id),
                lambda shard, now_ms: shard.join(client, request, reply.set, now_ms),
                lambda error: reply.set(JoinGroupResponse(error_code=client_code(error))),
            )
            return reply.now_or_later()

        return self._when_matched(request.group_id, request.member_id, None, join)

    def sync_group(
        self, request: SyncGroupRequest
    ) -> SyncGroupResponse | Promise[SyncGroupResponse]:
        if not request.group_id:
            return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        reply: Promise[SyncGroupResponse] = Promise()
        self.runtime.submit(
            self.partition_of(request.group_id),
            lambda shard, now_ms: shard.sync(request, reply.set, now_ms),
            lambda error: reply.set(SyncGroupResponse(error_code=client_code(error))),
        )
        return reply.now_or_later()

    def heartbeat(
        self, request: HeartbeatRequest
    ) -> HeartbeatResponse | Promise[HeartbeatResponse]:
        if not request.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)

        def failed(error: CoordinatorError) -> HeartbeatResponse:
            # While the group loads, nobody knows whether the member is in it: keep it alive.
            is_loading = error.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(
                error_code=ErrorCode.NONE if is_loading else client_code(error)
            )

        return self.runtime.submit(
            self.partition_of(request.group_id),
            lambda shard, _: shard.heartbeat(request),
            failed,
        )

    def leave_group(
        self, request: LeaveGroupRequest
    ) -> LeaveGroupResponse | Promise[LeaveGroupResponse]:
        if not request.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)

        def failed(error: CoordinatorError) -> LeaveGroupResponse:
            if error.error_code is not ErrorCode.UNKNOWN_MEMBER_ID:
                return LeaveGroupResponse(error_code=client_code(error))
            return LeaveGroupResponse(
                members=[
                    MemberResponse(
                        member_id=member.member_id,
                        group_instance_id=member.group_instance_id,
                        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                    )
                    for member in request.members
                ]
            )

        return self.runtime.submit(
            self.partition_of(request.group_id),
            lambda shard, now_ms: shard.leave(request, now_ms),
            failed,
        )

    def consumer_group_heartbeat(
        self, client: Client, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | Later[ConsumerGroupHeartbeatResponse]:
        def failed(error: CoordinatorError) -> ConsumerGroupHeartbeatResponse:
            return ConsumerGroupHeartbeatResponse(
                error_code=client_code(error), error_message=str(error)
            )

        try:
            check_heartbeat(request, client.api_version, self.surroundings.settings)
        except CoordinatorError as error:
            return failed(error)

        def beat() -> ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]:
            return self.runtime.submit(
                self.partition_of(request.group_id),
                lambda shard, now_ms: shard.consumer_heartbeat(client, request, now_ms),
                failed,
            )

        pattern = request.subscribed_topic_regex
        return self._when_matched(request.group_id, request.member_id, pattern, beat)

    def _when_matched(
        self,
        group_id: str,
        member_id: str,
        pattern: str | None,
        run: Callable[[], T | Promise[T]],
    ) -> T | Later[T]:
        """Runs a request of a member, and before, if it is much, matches patterns in a thread."""
        try:
            shard = self.runtime.shard(self.partition_of(group_id))
        except CoordinatorError:
            return run()
        patterns = shard.consumer.heartbeats.patterns.to_match(
            group_id, member_id, pattern, self._clock.now_ms()
        )
        if len(patterns) * len(self.surroundings.image.topics) <= MATCHES_AT_ONCE:
            return run()
        return self._match_and_run(patterns, run)

    async def _match_and_run(
        self, patterns: set[str], run: Callable[[], T | Promise[T]]
    ) -> T | Promise[T]:
        around = self.surroundings
        matched = NOTHING_MATCHED
        for _ in range(MATCHING_TRIES):
            names, version = tuple(around.image.topics), around.topics_version
            matched = await asyncio.to_thread(match_all, patterns, names, version)
            if version == around.topics_version:
                break
        around.matched = matched
        try:
            return run()
        finally:
            around.matched = NOTHING_MATCHED

    # Offsets

    def commit_offsets(
        self, api_version: int, request: OffsetCommitRequest
    ) -> OffsetCommitResponse | Promise[OffsetCommitResponse]:
        return self.runtime.submit(
            self.partition_of(request.group_id),
            lambda shard, now_ms: shard.commit(api_version, request, now_ms),
            lambda error: offset_requests.refuse(request, client_code(error)),
        )

    def start_verification(
        self, request: TxnOffsetCommitRequest, *, bumps_epoch: bool
    ) -> GuardedAppend:
        """Prepares `commit_transactional_offsets` before the transaction coordinator is asked.

        Raises CoordinatorError if there is no point in asking.
        """
        return self.log.start_verification(
            self.partition_of(request.group_id),
            request.producer_id,
            request.producer_epoch,
            bumps_epoch=bumps_epoch,
        )

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, guarded_append: GuardedAppend
    ) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
        """The caller has verified that the transaction is open and includes this group's partition.

        The append checks whether it still is.
        """
        if not request.group_id:
            return offset_requests.refuse_transactional(request, ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_of(request.group_id),
            lambda shard, now_ms: shard.commit_transactional(request, guarded_append, now_ms),
            lambda error: offset_requests.refuse_transactional(request, client_code(error)),
        )

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup | Promise[OffsetFetchResponseGroup]:
        def failed(error: CoordinatorError) -> OffsetFetchResponseGroup:
            error_code = client_code(error)
            if error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Consumers before 3.9 do not expect it here, and must look for the coordinator
                # again anyway.
                error_code = ErrorCode.NOT_COORDINATOR
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error_code)

        return self.runtime.query(
            self.partition_of(request.group_id),
            lambda shard, _: shard.fetch(request, require_stable=require_stable),
            failed,
        )

    def delete_offsets(
        self, request: OffsetDeleteRequest
    ) -> OffsetDeleteResponse | Promise[OffsetDeleteResponse]:
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        return self.runtime.submit(
            self.partition_of(request.group_id),
            lambda shard, _: shard.delete_offsets(request),
            lambda error: OffsetDeleteResponse(error_code=client_code(error)),
        )

    # Administration

    def describe_group(
        self, api_version: int, group_id: str
    ) -> DescribedGroup | Promise[DescribedGroup]:
        return self.runtime.query(
            self.partition_of(group_id),
            lambda shard, _: shard.describe(group_id, api_version),
            lambda error: DescribedGroup(group_id=group_id, error_code=client_code(error)),
        )

    def describe_consumer_group(
        self, group_id: str
    ) -> ConsumerDescription | Promise[ConsumerDescription]:
        if not group_id:
            return ConsumerDescription(error_code=ErrorCode.INVALID_GROUP_ID)
        return self.runtime.query(
            self.partition_of(group_id),
            lambda shard, _: shard.describe_consumer(group_id),
            lambda error: ConsumerDescription(group_id=group_id, error_code=client_code(error)),
        )

    def list_groups(
        self, states: list[str], types: list[str]
    ) -> tuple[ErrorCode, list[ListedGroup]]:
        """The groups of all partitions led here, including uncommitted ones.

        A list is outdated when it arrives anyway.
        """
        if self.runtime.is_loading():
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {group_type.strip().lower() for group_type in types}
        groups: list[ListedGroup] = []
        for partition in self.runtime.active_partitions:
            groups += self.runtime.shard(partition).listed(wanted_states, wanted_types)
        return ErrorCode.NONE, groups

    def delete_group(self, group_id: str) -> DeletableGroupResult | Promise[DeletableGroupResult]:
        return self.runtime.submit(
            self.partition_of(group_id),
            lambda shard, _: shard.delete_group(group_id),
            lambda error: DeletableGroupResult(group_id=group_id, error_code=client_code(error)),
        )
