"""The groups of one partition of `__consumer_offsets`: finds a group and dispatches. PURE.

Called by `service.py` through the runtime. The group's protocol decides who responds: `classic.py`
for classic groups, `consumer.py` for groups of KIP-848. `classic_in_consumer.py` serves members of
those that still use the classic protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from floodmark.coordinators.groups import offset_requests
from floodmark.coordinators.groups.classic import ClassicGroups, describe_classic
from floodmark.coordinators.groups.classic_group import ClassicGroup, JoinReply, SyncReply
from floodmark.coordinators.groups.classic_in_consumer import ClassicInConsumer
from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.commit_rules import (
    check_fetch,
    check_simple_commit,
    commit_check,
)
from floodmark.coordinators.groups.consumer_describe import describe_consumer
from floodmark.coordinators.groups.consumer_group import ConsumerGroup
from floodmark.coordinators.groups.consumer_records import group_tombstones
from floodmark.coordinators.groups.consumer_replay import replay_consumer_record
from floodmark.coordinators.groups.errors import unknown_group, unknown_member
from floodmark.coordinators.groups.expiry import expire_groups
from floodmark.coordinators.groups.group_kinds import Group, Groups
from floodmark.coordinators.groups.heartbeat_fields import is_leaving
from floodmark.coordinators.groups.offsets import OffsetStore
from floodmark.coordinators.groups.records import (
    GroupRecord,
    MessageRecord,
    OffsetRecord,
    decode_record,
    encode_record,
    group_metadata,
)
from floodmark.coordinators.groups.settings import Surroundings
from floodmark.coordinators.groups.states import ClassicState
from floodmark.coordinators.ports import CoordinatorError, GuardedAppend, NotAppended
from floodmark.coordinators.shard import Producer, Timers, Write
from floodmark.metadata.image import TopicImage
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.consumer_offsets import RecordType
from floodmark.wire.messages.consumer_group_describe import DescribedGroup as ConsumerDescription
from floodmark.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from floodmark.wire.messages.delete_groups import DeletableGroupResult
from floodmark.wire.messages.describe_groups import DescribedGroup
from floodmark.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from floodmark.wire.messages.join_group import JoinGroupRequest
from floodmark.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from floodmark.wire.messages.list_groups import ListedGroup
from floodmark.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from floodmark.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from floodmark.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from floodmark.wire.messages.sync_group import SyncGroupRequest
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from floodmark.wire.schema import ZERO_UUID

_EXPIRY_KEY = "expire-offsets"
DESCRIBE_NOT_FOUND_SINCE = 6


class GroupShard:
    def __init__(self, timers: Timers, surroundings: Surroundings) -> None:
        self.groups: Groups = {}
        self.offsets = OffsetStore()
        self.timers = timers
        self.surroundings = surroundings
        self.classic = ClassicGroups(self.groups, timers, surroundings)
        self.consumer = ClassicInConsumer(self.groups, timers, surroundings, self.classic)

    def group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise unknown_group(group_id)
        return group

    # The log

    encode = staticmethod(encode_record)

    def decode(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return decode_record(key, value)

    def replay(self, record: GroupRecord, offset: int, producer: Producer | None) -> None:
        if isinstance(record, OffsetRecord):
            self._replay_offset(record, offset, producer)
        elif record.record_type == RecordType.GROUP_METADATA:
            self._replay_classic(record)
        else:
            replay_consumer_record(self.groups, record)

    def _replay_offset(self, record: OffsetRecord, offset: int, producer: Producer | None) -> None:
        group_id, topic, partition, value = record
        if value is None:
            self.offsets.remove(group_id, topic, partition)
            return
        if group_id not in self.groups:
            # A commit by a non-member creates a simple group.
            self.groups[group_id] = ClassicGroup(group_id)
        self.offsets.put(
            group_id,
            topic,
            partition,
            value.at(offset),
            None if producer is None else producer.producer_id,
        )

    def _replay_classic(self, record: MessageRecord) -> None:
        group_id = record.key.group
        if record.value is not None:
            self.groups[group_id] = ClassicGroup.from_record(group_id, record.value)
        elif isinstance(self.groups.get(group_id), ClassicGroup):
            del self.groups[group_id]

    def end_transaction(self, producer: Producer, *, committed: bool) -> None:
        self.offsets.end_transaction(producer.producer_id, committed=committed)

    def loaded(self, now_ms: int) -> None:
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup):
                self.classic.start_sessions(group, now_ms)
            else:
                self.consumer.heartbeats.timers.start_timers(group)
        self._schedule_expiry(self.surroundings.settings.offsets_retention_check_interval_ms)

    def unloaded(self) -> None:
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                self.classic.forget(group, ErrorCode.NOT_COORDINATOR, 0)
        self.groups.clear()

    # Membership

    def consumer_heartbeat(
        self, client: Client, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> Write[ConsumerGroupHeartbeatResponse]:
        group = self.groups.get(request.group_id)
        if is_leaving(request):
            if not isinstance(group, ConsumerGroup):
                raise unknown_group(request.group_id)
            return self.consumer.heartbeats.leave(group, request, now_ms)
        records: list[GroupRecord] = []
        if not isinstance(group, ConsumerGroup):
            if request.member_epoch != 0:
                raise unknown_group(request.group_id)
            if group is None:
                group = ConsumerGroup(request.group_id)
            elif group.is_empty:
                records += self.tombstones(group)
                group = ConsumerGroup(request.group_id)
            else:
                group, records = self.consumer.upgrade(group)
        return self.consumer.heartbeats.beat(group, records, client, request, now_ms)

    def join(
        self, client: Client, request: JoinGroupRequest, reply: JoinReply, now_ms: int
    ) -> Write[None]:
        group = self.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self.classic.join(client, request, reply, now_ms)
        if not group.is_empty:
            return self.consumer.join(group, client, request, reply, now_ms)
        if request.member_id:
            raise unknown_member()
        return self._join_emptied(group, client, request, reply, now_ms)

    def _join_emptied(
        self,
        group: ConsumerGroup,
        client: Client,
        request: JoinGroupRequest,
        reply: JoinReply,
        now_ms: int,
    ) -> Write[None]:
        """A consumer group without members gives way to a classic one. Its offsets stay."""
        tombstones = self.tombstones(group)
        del self.groups[group.group_id]
        write = self.classic.join(client, request, reply, now_ms)

        def done(error: CoordinatorError | None) -> None:
            if write.then is not None:
                write.then(error)
            if isinstance(error, NotAppended):
                self.groups[group.group_id] = group

        return Write(None, [*tombstones, *write.records], then=done, replay=False)

    def sync(self, request: SyncGroupRequest, reply: SyncReply, now_ms: int) -> Write[None]:
        group = self.groups.get(request.group_id)
        if group is None or group.is_empty:
            raise unknown_member()
        if isinstance(group, ConsumerGroup):
            return self.consumer.sync(group, request, reply)
        return self.classic.sync(group, request, reply, now_ms)

    def heartbeat(self, request: HeartbeatRequest) -> Write[HeartbeatResponse]:
        group = self.groups.get(request.group_id)
        if group is None:
            raise unknown_member()
        if isinstance(group, ConsumerGroup):
            return self.consumer.heartbeat(group, request)
        return self.classic.heartbeat(group, request)

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> Write[LeaveGroupResponse]:
        group = self.groups.get(request.group_id)
        if group is None:
            raise unknown_member()
        if isinstance(group, ConsumerGroup):
            return self.consumer.leave_classic(group, request, now_ms)
        return self.classic.leave(group, request, now_ms)

    # Offsets

    def commit(
        self, api_version: int, request: OffsetCommitRequest, now_ms: int
    ) -> Write[OffsetCommitResponse]:
        group = self.groups.get(request.group_id)
        check: offset_requests.PartitionCheck | None = None
        if group is None:
            check_simple_commit(api_version, request)
        else:
            check = commit_check(
                group,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                api_version=api_version,
            )
            if isinstance(group, ClassicGroup):
                self.classic.keep_session(group, request.member_id, now_ms)
        max_metadata = self.surroundings.settings.offset_metadata_max_bytes
        return offset_requests.commit(request, max_metadata, check, now_ms)

    def commit_transactional(
        self, request: TxnOffsetCommitRequest, guarded_append: GuardedAppend, now_ms: int
    ) -> Write[TxnOffsetCommitResponse]:
        group = self.groups.get(request.group_id)
        check: offset_requests.PartitionCheck | None = None
        if group is None:
            if request.generation_id >= 0:
                raise CoordinatorError(ErrorCode.ILLEGAL_GENERATION)
        else:
            check = commit_check(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
        max_metadata = self.surroundings.settings.offset_metadata_max_bytes
        return offset_requests.commit_in_transaction(
            request, max_metadata, check, self.surroundings.image, guarded_append, now_ms
        )

    def fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        group = self.groups.get(request.group_id)
        if group is None:
            return offset_requests.nothing_committed(request)
        if isinstance(group, ConsumerGroup):
            check_fetch(group, request.member_id, request.member_epoch)
        return offset_requests.fetch(self.offsets, request, require_stable=require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Write[OffsetDeleteResponse]:
        group = self.group(request.group_id)
        if (
            isinstance(group, ClassicGroup)
            and not group.is_empty
            and not group.is_consumer_protocol
        ):
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP)
        return offset_requests.delete(self.offsets, request, group.is_subscribed_to)

    def topics_deleted(self, topics: Sequence[TopicImage]) -> Write[None]:
        """Removes a topic's offsets, but keeps those of another topic id with the same name."""
        records = [
            OffsetRecord(group_id, topic.name, partition, None)
            for topic in topics
            for group_id, partition, value in self.offsets.of_topic(topic.name)
            if value.topic_id in (ZERO_UUID, topic.topic_id)
        ]
        return Write(None, records, atomic=False)

    # Describing and deleting

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return describe_classic(group)
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if api_version >= DESCRIBE_NOT_FOUND_SINCE:
            is_other = group is not None
            text = "is not a classic group." if is_other else "not found."
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} {text}"
        return described

    def describe_consumer(self, group_id: str) -> ConsumerDescription:
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            text = "not found." if group is None else "is not a consumer group."
            return ConsumerDescription(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {text}",
            )
        assignor = self.consumer.heartbeats.assignor_name(group.members)
        return describe_consumer(group, assignor, self.surroundings.image)

    def listed(self, states: set[str], types: set[str]) -> list[ListedGroup]:
        """Both filters are in lower case; an empty one matches everything."""
        found = []
        for group in self.groups.values():
            is_classic = isinstance(group, ClassicGroup)
            group_type = "classic" if is_classic else "consumer"
            state = group.state_name
            if (types and group_type not in types) or (states and state.lower() not in states):
                continue
            found.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=state,
                    group_type=group_type,
                )
            )
        return found

    def delete_group(self, group_id: str) -> Write[DeletableGroupResult]:
        group = self.group(group_id)
        if not group.is_empty:
            raise CoordinatorError(ErrorCode.NON_EMPTY_GROUP)
        records: list[GroupRecord] = [*self.offsets.tombstones(group_id), *self.tombstones(group)]
        return Write(DeletableGroupResult(group_id=group_id), records, atomic=False)

    def tombstones(self, group: Group) -> list[MessageRecord]:
        """The tombstones of an empty group. Timers that it leaves behind find it gone."""
        if isinstance(group, ConsumerGroup):
            return group_tombstones(group)
        return [group_metadata(group.group_id, None)]

    def _schedule_expiry(self, delay_ms: int) -> None:
        self.timers.schedule(_EXPIRY_KEY, delay_ms, lambda _, now_ms: self._expire(now_ms))

    def _expire(self, now_ms: int) -> Write[None]:
        """Sets the next run first, whatever happens to this one.

        It runs immediately only if the log has accepted all records.
        """
        self._schedule_expiry(self.surroundings.settings.offsets_retention_check_interval_ms)
        records, is_complete = expire_groups(self, now_ms)
        go_on = None if is_complete else lambda: self._schedule_expiry(0)
        return Write(None, records, applied=go_on, atomic=False)
