"""The group APIs in all their versions: every answer must fit into the version it is sent in."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from floodmark.apis.authorized_operations import ALL_ON_GROUP
from floodmark.apis.context import RequestContext
from floodmark.metadata.image import ImageChange
from floodmark.network.connection import Peer
from floodmark.wire.compiler import decode, encode
from floodmark.wire.errors import ErrorCode
from floodmark.wire.headers import RequestHeader
from floodmark.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from floodmark.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from floodmark.wire.messages.delete_groups import DeleteGroupsRequest
from floodmark.wire.messages.describe_groups import DescribeGroupsRequest
from floodmark.wire.messages.find_coordinator import FindCoordinatorRequest
from floodmark.wire.messages.heartbeat import HeartbeatRequest
from floodmark.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from floodmark.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from floodmark.wire.messages.list_groups import ListGroupsRequest
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
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from floodmark.wire.messages.sync_group import SyncGroupRequest
from floodmark.wire.schema import schema_of
from kit.group_bench import GroupBench, topic_image

TOPIC = UUID(int=1)
UNKNOWN = UUID(int=99)


class Services:
    """As much of the broker as these APIs ask for."""

    def __init__(self, bench: GroupBench) -> None:
        self.groups = bench.service
        self.transactions = SimpleNamespace(log=bench.log)
        self._bench = bench

    @property
    def image(self) -> Any:
        return self._bench.image

    def broker_endpoints(
        self, listener: str, *, with_departed: bool = False
    ) -> Iterator[tuple[int, str, int, str | None]]:
        yield 0, "here", 9092, None


class Api:
    def __init__(self, bench: GroupBench) -> None:
        self.bench = bench

    async def __call__(self, request: Any, version: int) -> Any:
        """Through the codecs of the version in both directions."""
        schema = schema_of(type(request))
        assert schema.api_key is not None
        name = schema.api_key.name.lower()
        request = decode(type(request), encode(request, version), version)
        header = RequestHeader(schema.api_key, version, 1, "app")
        peer = Peer("c", "10.0.0.1", "PLAINTEXT", "PLAINTEXT")
        services: Any = Services(self.bench)
        outcome = import_module(f"floodmark.apis.handlers.{name}").handle(
            RequestContext(services, peer, header), request
        )
        if inspect.isawaitable(outcome):
            outcome = await outcome
        return decode(type(outcome), encode(outcome, version), version)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    bench = GroupBench()
    bench.set_topics(topic_image("t", 2, 1))
    yield Api(bench)
    bench.service.close()


def versions(request_class: type) -> range:
    lowest, highest = schema_of(request_class).versions
    return range(lowest, highest + 1)


def commit_request(
    *partitions: int, topic_id: UUID = TOPIC, name: str = "t"
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=p, committed_offset=7, committed_metadata="m"
                    )
                    for p in partitions
                ],
            )
        ],
    )


@pytest.mark.parametrize("version", versions(OffsetCommitRequest))
async def test_partitions_that_do_not_exist_are_refused_one_by_one(api: Api, version: int) -> None:
    answer = await api(commit_request(0, 5), version)
    assert len(answer.topics) == 1
    codes = {p.partition_index: p.error_code for p in answer.topics[0].partitions}
    assert codes == {0: ErrorCode.NONE, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    answer = await api(commit_request(0, topic_id=UNKNOWN, name="x"), version)
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.topics[0].partitions[0].error_code == expected


@pytest.mark.parametrize("version", [v for v in versions(OffsetFetchRequest) if v < 8])
async def test_offsets_of_one_group_are_fetched(api: Api, version: int) -> None:
    await api(commit_request(0), 8)
    topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
    answer = await api(OffsetFetchRequest(group_id="g", topics=[topic]), version)
    found = [(p.committed_offset, p.metadata) for p in answer.topics[0].partitions]
    assert found == [(7, "m"), (-1, "")]
    if version >= 2:
        answer = await api(OffsetFetchRequest(group_id="g", topics=None), version)
        assert [len(topic.partitions) for topic in answer.topics] == [1]
    api.bench.service.unload(0)
    answer = await api(OffsetFetchRequest(group_id="g", topics=[topic]), version)
    code = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
    assert code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_offsets_of_many_groups_are_fetched(api: Api, version: int) -> None:
    await api(commit_request(0), 8)
    topics = [
        OffsetFetchRequestTopics(name="t", topic_id=TOPIC, partition_indexes=[0]),
        OffsetFetchRequestTopics(name="x", topic_id=UNKNOWN, partition_indexes=[0]),
    ]
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=topics),
            OffsetFetchRequestGroup(group_id="nobody", topics=topics[:1]),
            OffsetFetchRequestGroup(group_id="g", topics=None),
        ]
    )
    first, second, third = (await api(request, version)).groups
    assert [t.partitions[0].committed_offset for t in first.topics] == [7, -1]
    code = first.topics[1].partitions[0].error_code
    assert code == (ErrorCode.UNKNOWN_TOPIC_ID if version == 10 else ErrorCode.NONE)
    assert second.topics[0].partitions[0].committed_offset == -1
    assert [p.committed_offset for t in third.topics for p in t.partitions] == [7]
    if version == 10:
        assert third.topics[0].topic_id == TOPIC


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest))
async def test_the_coordinator_is_the_leader_of_the_keys_partition(api: Api, version: int) -> None:
    offsets_topic = topic_image("__consumer_offsets", 1, 50)
    api.bench.image = api.bench.image.apply(
        ImageChange(topics={"__consumer_offsets": offsets_topic})
    )
    request = FindCoordinatorRequest(key="g")
    if version >= 4:
        request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
    answer = await api(request, version)
    found = answer.coordinators if version >= 4 else [answer]
    assert [(c.node_id, c.host, c.port, c.error_code) for c in found] == [
        (0, "here", 9092, ErrorCode.NONE)
    ] * len(found)
    if version >= 1:
        request.key_type = 2
        answer = await api(request, version)
        found = answer.coordinators if version >= 4 else [answer]
        assert {c.error_code for c in found} == {ErrorCode.INVALID_REQUEST}


async def test_without_its_topic_there_is_no_coordinator_yet(api: Api) -> None:
    answer = await api(FindCoordinatorRequest(key="g"), 3)
    assert (answer.node_id, answer.error_code) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("version", versions(JoinGroupRequest))
async def test_a_refused_join_fits_into_every_version(api: Api, version: int) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    answer = await api(request, version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    assert answer.protocol_name == (None if version >= 7 else "")
    request.group_id = ""
    answer = await api(request, version)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", versions(SyncGroupRequest))
async def test_a_sync_of_an_unknown_group_is_refused(api: Api, version: int) -> None:
    request = SyncGroupRequest(
        group_id="g", member_id="m", protocol_type="consumer", protocol_name="range"
    )
    assert (await api(request, version)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    if version >= 5:
        request.protocol_name = None
        answer = await api(request, version)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions(HeartbeatRequest))
async def test_a_heartbeat_to_an_unknown_group_is_refused(api: Api, version: int) -> None:
    answer = await api(HeartbeatRequest(group_id="g", member_id="m"), version)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions(LeaveGroupRequest))
async def test_leaving_an_unknown_group_is_an_error_of_the_member(api: Api, version: int) -> None:
    request = LeaveGroupRequest(group_id="g", member_id="m")
    if version >= 3:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    answer = await api(request, version)
    codes = [m.error_code for m in answer.members] if version >= 3 else [answer.error_code]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", versions(ListGroupsRequest))
async def test_groups_are_listed(api: Api, version: int) -> None:
    await api(commit_request(0), 8)
    answer = await api(ListGroupsRequest(), version)
    assert [group.group_id for group in answer.groups] == ["g"]


@pytest.mark.parametrize("version", versions(DescribeGroupsRequest))
async def test_groups_are_described(api: Api, version: int) -> None:
    await api(commit_request(0), 8)
    request = DescribeGroupsRequest(groups=["g", "x"], include_authorized_operations=version >= 3)
    known, unknown = (await api(request, version)).groups
    assert (known.group_state, unknown.group_state) == ("Empty", "Dead")
    if version >= 3:
        assert known.authorized_operations == ALL_ON_GROUP
    assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", versions(DeleteGroupsRequest))
async def test_groups_are_deleted(api: Api, version: int) -> None:
    await api(commit_request(0), 8)
    answer = await api(DeleteGroupsRequest(groups_names=["g", "x", "g"]), version)
    results = {result.group_id: result.error_code for result in answer.results}
    assert results == {"g": ErrorCode.NONE, "x": ErrorCode.GROUP_ID_NOT_FOUND}


async def test_offsets_are_deleted_partition_by_partition(api: Api) -> None:
    await api(commit_request(0), 8)
    partitions = [OffsetDeleteRequestPartition(partition_index=p) for p in (0, 5)]
    topics = [
        OffsetDeleteRequestTopic(name="t", partitions=partitions),
        OffsetDeleteRequestTopic(name="x", partitions=partitions),
    ]
    answer = await api(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    codes = {
        (topic.name, p.partition_index): p.error_code
        for topic in answer.topics
        for p in topic.partitions
    }
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {("t", 0): 0, ("t", 5): missing, ("x", 0): missing, ("x", 5): missing}


@pytest.mark.parametrize("version", versions(ConsumerGroupHeartbeatRequest))
async def test_a_consumer_joins_and_is_described(api: Api, version: int) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await api(request, version)
    assert [p for t in answer.assignment.topic_partitions for p in t.partitions] == [0, 1]
    describe = ConsumerGroupDescribeRequest(
        group_ids=["g", "x", ""], include_authorized_operations=True
    )
    known, unknown, unnamed = (await api(describe, version)).groups
    assert (known.group_state, known.authorized_operations) == ("Stable", ALL_ON_GROUP)
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
