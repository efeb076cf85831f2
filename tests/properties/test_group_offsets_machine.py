"""Committed offsets against a dictionary: any history, any transaction, any reload."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from floodmark.coordinators.ports import AppendRefused
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.offset_fetch import OffsetFetchRequestGroup
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kit.flushed import COMMITS_LATER
from kit.group_bench import GroupBench, now
from kit.loop_machine import LoopMachine

API_VERSION = 9
GROUPS = ("g1", "g2")
groups = st.sampled_from(GROUPS)
topics = st.sampled_from(("t", "u"))
partitions = st.integers(0, 2)
offsets = st.integers(0, 1000)
producers = st.integers(1, 3)
Key = tuple[str, str, int]


class OffsetsMachine(LoopMachine):
    """`order` stands for the place in the log: the later commit wins, by whatever way it came."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = self.run(GroupBench, commits_later=COMMITS_LATER)
        self.committed: dict[Key, tuple[int, int]] = {}
        self.pending: dict[int, dict[Key, tuple[int, int]]] = {}
        self.order = 0

    def teardown(self) -> None:
        self.run(self.bench.service.close)
        super().teardown()

    def commit_request(self, group_id: str, topic: str, partition: int, offset: int) -> int:
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        answer = now(self.run(self.bench.service.commit_offsets, API_VERSION, request))
        return answer.topics[0].partitions[0].error_code

    @rule(group_id=groups, topic=topics, partition=partitions, offset=offsets)
    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        assert self.commit_request(group_id, topic, partition, offset) == ErrorCode.NONE
        self.order += 1
        self.committed[(group_id, topic, partition)] = (offset, self.order)

    @rule(group_id=groups, topic=topics, partition=partitions, offset=offsets)
    def commit_fails(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        self.bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
        error_code = self.commit_request(group_id, topic, partition, offset)
        self.bench.log.fail_with = None
        assert error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    @rule(
        group_id=groups, topic=topics, partition=partitions, offset=offsets, producer_id=producers
    )
    def commit_in_transaction(
        self, group_id: str, topic: str, partition: int, offset: int, producer_id: int
    ) -> None:
        request = TxnOffsetCommitRequest(
            group_id=group_id,
            producer_id=producer_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        guarded_append = self.bench.service.start_verification(request, bumps_epoch=False)
        answer = now(
            self.run(self.bench.service.commit_transactional_offsets, request, guarded_append)
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        self.order += 1
        pending = self.pending.setdefault(producer_id, {})
        pending[(group_id, topic, partition)] = (offset, self.order)

    @rule(producer_id=producers, committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        marker = EndTransactionMarker(ControlType.COMMIT if committed else ControlType.ABORT, 0)
        batch = encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=0)
        self.run(self.bench.log.append, 0, batch)
        self.run(self.bench.service.marker, 0, producer_id, 0, committed=committed)
        for key, value in self.pending.pop(producer_id, {}).items():
            if committed and value[1] > self.committed.get(key, (0, 0))[1]:
                self.committed[key] = value

    @rule(group_id=groups)
    def delete_group(self, group_id: str) -> None:
        self.run(self.bench.service.delete_group, group_id)
        self.committed = {k: v for k, v in self.committed.items() if k[0] != group_id}
        for pending in self.pending.values():
            for key in [key for key in pending if key[0] == group_id]:
                del pending[key]

    @rule()
    def reload(self) -> None:
        self.run(self.bench.reload)

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        unstable = {key for pending in self.pending.values() for key in pending}
        for group_id in GROUPS:
            request = OffsetFetchRequestGroup(group_id=group_id, topics=None)
            fetch = self.bench.service.fetch_offsets
            answer = now(self.run(fetch, request, require_stable=False))
            found = {
                (group_id, topic.name, p.partition_index): p.committed_offset
                for topic in answer.topics
                for p in topic.partitions
            }
            assert found == {k: v[0] for k, v in self.committed.items() if k[0] == group_id}
            answer = now(self.run(fetch, request, require_stable=True))
            refused = {
                (group_id, topic.name, p.partition_index)
                for topic in answer.topics
                for p in topic.partitions
                if p.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
            }
            assert refused == unstable & found.keys()


OffsetsMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, print_blob=True
)
test_offsets_follow_the_model = OffsetsMachine.TestCase
