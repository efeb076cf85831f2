"""Committed offsets: who may commit, what is fetched, transactions, expiry, deletion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from floodmark.coordinators.groups.client import Client
from floodmark.coordinators.groups.records import (
    CommittedOffset,
    OffsetRecord,
    decode_record,
    encode_record,
)
from floodmark.coordinators.groups.settings import MAX_TOMBSTONES_PER_WRITE, GroupSettings
from floodmark.coordinators.java_hash import java_string_hash, partition_for
from floodmark.coordinators.ports import AppendRefused
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.wire.errors import ErrorCode
from floodmark.wire.internal.classic_groups import OffsetCommitKey, OffsetCommitValue
from floodmark.wire.internal.framing import encode_key, encode_versioned
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from floodmark.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from floodmark.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from floodmark.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from floodmark.wire.messages.sync_group import SyncGroupRequest
from floodmark.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from floodmark.wire.schema import ZERO_UUID, WireError
from kit.group_bench import GroupBench, is_waiting, now, topic_image

HOUR_MS = 3_600_000


@pytest.fixture
async def bench() -> AsyncIterator[GroupBench]:
    bench = GroupBench(GroupSettings(offsets_retention_ms=24 * HOUR_MS))
    yield bench
    bench.service.close()


def commit(
    bench: GroupBench,
    offset: int,
    *,
    group_id: str = "g",
    partition: int = 0,
    generation_id: int = -1,
    member_id: str = "",
    metadata: str | None = "",
    retention_ms: int = -1,
    api_version: int = 9,
    topic_id: UUID = ZERO_UUID,
) -> int:
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=3,
                        committed_metadata=metadata,
                    )
                ],
            )
        ],
    )
    answer = now(bench.service.commit_offsets(api_version, request))
    return answer.topics[0].partitions[0].error_code


def fetch(
    bench: GroupBench, *, partition: int = 0, stable: bool = False, topic_id: UUID = ZERO_UUID
) -> OffsetFetchResponsePartitions:
    topic = OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[partition])
    request = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    answer = now(bench.service.fetch_offsets(request, require_stable=stable))
    assert answer.error_code == ErrorCode.NONE
    return answer.topics[0].partitions[0]


def commit_in_transaction(bench: GroupBench, offset: int, producer_id: int) -> int:
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=None
                    )
                ],
            )
        ],
    )
    guarded_append = bench.service.start_verification(request, bumps_epoch=False)
    answer = now(bench.service.commit_transactional_offsets(request, guarded_append))
    return answer.topics[0].partitions[0].error_code


def end_transaction(bench: GroupBench, producer_id: int, control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, 0)
    batch = encode_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=0)
    bench.log.append(0, batch)
    committed = control_type is ControlType.COMMIT
    bench.service.marker(0, producer_id, 0, committed=committed)


async def test_what_was_committed_is_fetched_also_after_a_reload(bench: GroupBench) -> None:
    assert commit(bench, 5, metadata="note") == ErrorCode.NONE
    for _ in range(2):
        found = fetch(bench)
        assert (found.committed_offset, found.committed_leader_epoch) == (5, 3)
        assert found.metadata == "note"
        await bench.reload()


async def test_an_unknown_group_or_partition_is_minus_one_without_error(bench: GroupBench) -> None:
    assert (fetch(bench).committed_offset, fetch(bench).error_code) == (-1, ErrorCode.NONE)
    commit(bench, 5)
    assert fetch(bench, partition=9).committed_offset == -1
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    answer = now(bench.service.fetch_offsets(everything, require_stable=False))
    assert [(t.name, len(t.partitions)) for t in answer.topics] == [("t", 1)]


async def test_a_commit_with_a_generation_needs_its_group(bench: GroupBench) -> None:
    assert commit(bench, 5, generation_id=1, member_id="m") == ErrorCode.GROUP_ID_NOT_FOUND
    old = commit(bench, 5, generation_id=1, member_id="m", api_version=8)
    assert old == ErrorCode.ILLEGAL_GENERATION


def join_alone(bench: GroupBench) -> str:
    """The id of a member that has joined and got no assignment yet."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    outcome = bench.service.join_group(Client("app", "/h", 3), request)
    bench.advance(3000)
    member_id: str = now(outcome).member_id
    return member_id


async def test_a_group_with_members_takes_commits_of_members_only(bench: GroupBench) -> None:
    member_id = join_alone(bench)
    assert commit(bench, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bench, 1, generation_id=1, member_id="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(bench, 1, generation_id=0, member_id=member_id) == ErrorCode.ILLEGAL_GENERATION
    in_time = commit(bench, 1, generation_id=1, member_id=member_id)
    assert in_time == ErrorCode.REBALANCE_IN_PROGRESS
    assert fetch(bench).committed_offset == -1


async def test_a_commit_is_a_sign_of_life(bench: GroupBench) -> None:
    member_id = join_alone(bench)
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
    assert now(bench.service.sync_group(sync)).error_code == ErrorCode.NONE
    for offset in range(5):
        bench.advance(8000)
        assert commit(bench, offset, generation_id=1, member_id=member_id) == ErrorCode.NONE
    bench.advance(9000)
    assert member_id in bench.group("g").members
    bench.advance(1500)
    assert not bench.group("g").members, "its session ends as long after the last commit"


async def test_metadata_that_is_too_long_is_refused(bench: GroupBench) -> None:
    assert commit(bench, 1, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(bench, 1, metadata="é" * 4096) == ErrorCode.NONE
    await bench.reload()
    assert fetch(bench).metadata == "é" * 4096


@pytest.mark.parametrize(
    "reason", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
)
async def test_a_commit_that_cannot_be_stored_changes_nothing(
    bench: GroupBench, reason: ErrorCode
) -> None:
    commit(bench, 1)
    bench.log.fail_with = AppendRefused(reason)
    assert commit(bench, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetch(bench).committed_offset == 1


async def test_a_fetch_waits_until_what_it_saw_is_committed(bench: GroupBench) -> None:
    bench.log.hold = True
    request = OffsetFetchRequestGroup(group_id="g", topics=None)
    with pytest.raises(AssertionError):
        commit(bench, 1)
    assert is_waiting(bench.service.fetch_offsets(request, require_stable=False))


@pytest.mark.parametrize("reload", [False, True])
async def test_offsets_of_an_open_transaction_are_pending(bench: GroupBench, reload: bool) -> None:
    commit(bench, 1)
    assert commit_in_transaction(bench, 7, producer_id=9) == ErrorCode.NONE
    if reload:
        await bench.reload()
    assert fetch(bench).committed_offset == 1
    assert fetch(bench, stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    end_transaction(bench, 9, ControlType.COMMIT)
    if reload:
        await bench.reload()
    assert fetch(bench, stable=True).committed_offset == 7


async def test_an_aborted_transaction_leaves_the_old_offset(bench: GroupBench) -> None:
    commit(bench, 1)
    commit_in_transaction(bench, 7, producer_id=9)
    end_transaction(bench, 9, ControlType.ABORT)
    assert fetch(bench, stable=True).committed_offset == 1


async def test_a_plain_commit_after_a_transactional_one_wins(bench: GroupBench) -> None:
    commit_in_transaction(bench, 7, producer_id=9)
    commit(bench, 8)
    end_transaction(bench, 9, ControlType.COMMIT)
    assert fetch(bench).committed_offset == 8
    await bench.reload()
    assert fetch(bench).committed_offset == 8


async def test_offsets_of_a_simple_group_expire_after_their_last_commit(bench: GroupBench) -> None:
    commit(bench, 1)
    for _ in range(25):
        bench.clock.advance(HOUR_MS)
        bench.service.runtime.run_timers()
    assert fetch(bench).committed_offset == -1
    assert bench.group("g") is None
    await bench.reload()
    assert bench.group("g") is None


async def test_a_retention_of_its_own_expires_early(bench: GroupBench) -> None:
    commit(bench, 1, retention_ms=1000, api_version=4)
    commit(bench, 1, partition=1)
    await bench.reload()
    bench.clock.advance(HOUR_MS)
    bench.service.runtime.run_timers()
    assert fetch(bench).committed_offset == -1
    assert fetch(bench, partition=1).committed_offset == 1


async def test_offsets_of_a_deleted_topic_go_with_it(bench: GroupBench) -> None:
    bench.set_topics(topic_image("t", 2, 1))
    commit(bench, 1, topic_id=UUID(int=1))
    commit(bench, 1, partition=1, topic_id=UUID(int=5))
    bench.set_topics()
    assert fetch(bench).committed_offset == -1
    assert fetch(bench, partition=1).committed_offset == 1


async def test_however_many_offsets_go_when_their_topic_does(bench: GroupBench) -> None:
    bench.set_topics(topic_image("t", 20))
    for partition in range(20):
        commit(bench, 1, partition=partition)
    bench.log.max_batch_bytes = 300
    bench.set_topics()
    assert fetch(bench).committed_offset == -1
    await bench.reload()
    assert bench.service.runtime.shard(0).offsets.topics("g") == {}


async def test_offsets_that_outlive_their_topic_are_reported(
    bench: GroupBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.set_topics(topic_image("t", 1))
    commit(bench, 1)
    bench.log.fail_with = AppendRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas")
    bench.set_topics()
    assert "keeps offsets of deleted topics (t): too few replicas" in caplog.text


@pytest.mark.parametrize("way", ["expiry", "delete_group", "delete_offsets"])
async def test_however_many_offsets_of_a_group_can_be_removed(bench: GroupBench, way: str) -> None:
    for partition in range(20):
        commit(bench, 1, partition=partition)
    bench.log.max_batch_bytes = 300
    if way == "expiry":
        bench.clock.advance(25 * HOUR_MS)
        bench.service.runtime.run_timers()
    elif way == "delete_group":
        assert now(bench.service.delete_group("g")).error_code == ErrorCode.NONE
    else:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(20)]
        topic = OffsetDeleteRequestTopic(name="t", partitions=partitions)
        request = OffsetDeleteRequest(group_id="g", topics=[topic])
        assert now(bench.service.delete_offsets(request)).error_code == ErrorCode.NONE
    await bench.reload()
    assert bench.service.runtime.shard(0).offsets.topics("g") == {}
    assert (bench.group("g") is None) == (way != "delete_offsets")


async def test_expiry_that_the_log_refuses_is_not_tried_again_at_once(bench: GroupBench) -> None:
    for partition in range(MAX_TOMBSTONES_PER_WRITE):
        commit(bench, 1, partition=partition)
    commit(bench, 1, group_id="h")
    bench.log.fail_with = AppendRefused(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.clock.advance(25 * HOUR_MS)
    bench.service.runtime.run_timers()
    bench.log.fail_with = None
    bench.service.runtime.run_timers()
    assert fetch(bench).committed_offset == 1
    bench.clock.advance(bench.settings.offsets_retention_check_interval_ms)
    bench.service.runtime.run_timers()
    assert fetch(bench).committed_offset == -1


async def test_an_offset_of_the_topics_former_self_is_not_fetched(bench: GroupBench) -> None:
    commit(bench, 1, topic_id=UUID(int=1))
    assert fetch(bench, topic_id=UUID(int=1)).committed_offset == 1
    assert fetch(bench, topic_id=UUID(int=2)).committed_offset == -1


async def test_offsets_and_groups_can_be_deleted(bench: GroupBench) -> None:
    commit(bench, 1)
    commit(bench, 1, partition=1)
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name="t", partitions=[partition])
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    answer = now(bench.service.delete_offsets(request))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert fetch(bench).committed_offset == -1
    assert fetch(bench, partition=1).committed_offset == 1
    commit_in_transaction(bench, 7, producer_id=9)
    assert now(bench.service.delete_group("g")).error_code == ErrorCode.NONE
    end_transaction(bench, 9, ControlType.COMMIT)
    await bench.reload()
    assert fetch(bench, partition=1).committed_offset == -1
    assert fetch(bench).committed_offset == -1
    assert now(bench.service.delete_group("g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert now(bench.service.delete_offsets(request)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_groups_are_listed_by_state_and_type(bench: GroupBench) -> None:
    commit(bench, 1)
    for states, types, expected in (
        ([], [], 1),
        (["empty"], ["Classic"], 1),
        (["Stable"], [], 0),
        ([], ["consumer"], 0),
    ):
        error_code, groups = bench.service.list_groups(states, types)
        assert (error_code, len(groups)) == (ErrorCode.NONE, expected)


async def test_an_unknown_group_is_described_as_dead(bench: GroupBench) -> None:
    old = now(bench.service.describe_group(5, "g"))
    assert (old.group_state, old.error_code) == ("Dead", ErrorCode.NONE)
    new = now(bench.service.describe_group(6, "g"))
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)


@pytest.mark.parametrize("topic_id", [ZERO_UUID, UUID(int=77)])
@pytest.mark.parametrize("metadata", ["", "é", "x" * 200])
def test_the_short_codec_writes_what_the_definition_says(topic_id: UUID, metadata: str) -> None:
    value = CommittedOffset(2**40, -1, metadata, 1_700_000_000_000, None, topic_id)
    record = OffsetRecord("gruppe-ä", "topic", 7, value)
    key, encoded = encode_record(record)
    assert key == encode_key(OffsetCommitKey(group="gruppe-ä", topic="topic", partition=7), 1)
    message = OffsetCommitValue(
        offset=2**40,
        leader_epoch=-1,
        metadata=metadata,
        commit_timestamp=1_700_000_000_000,
        topic_id=topic_id,
    )
    assert encoded == encode_versioned(message, 4)
    assert decode_record(key, encoded) == record
    assert decode_record(key, None) == record._replace(value=None)
    assert decode_record(b"\x00\x63rest", b"") is None
    with pytest.raises(WireError):
        decode_record(b"\x00", b"")


def test_groups_are_spread_by_javas_hash() -> None:
    assert java_string_hash("hello") == 99162322
    assert java_string_hash("console-consumer-12345") == 158455506
    assert java_string_hash("") == 0
    assert java_string_hash("\U0001f600") == 1772899
    assert partition_for("hello", 50) == 22
    # The one hash whose absolute value is not an int in Java.
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0
