"""A broker that has stopped responding is left once another has taken over, and never before."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from floodmark.client.cluster.asking_in_turn import ask_in_turn
from floodmark.client.cluster.cluster import Cluster, CoordinatorType
from floodmark.client.cluster.connection import Address, Connection
from floodmark.client.cluster.coordinator_requests import ask_coordinator_once
from floodmark.client.cluster.silent_brokers import CoordinatorAsked, LeaderAsked
from floodmark.client.cluster.view import (
    Broker,
    ClusterView,
    PartitionView,
    TopicPartition,
    TopicView,
)
from floodmark.client.consumer.consumer import Consumer
from floodmark.client.errors import ConnectionFailed, KafkaError, RequestTimedOut
from floodmark.client.offsets import list_offsets
from floodmark.client.producer.producer import Producer
from floodmark.client.settings import ConsumerSettings
from floodmark.records.record import Record, encode_batch
from floodmark.vocabulary import NO_LEADER
from floodmark.wire.api_keys import ApiKey
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from floodmark.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from floodmark.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from floodmark.wire.messages.metadata import MetadataResponseBroker
from floodmark.wire.schema import ZERO_UUID
from kit.partition_leader import Leader, quick

T0 = TopicPartition("t", 0)
PATIENCE_MS = 30
GROUP = CoordinatorType.GROUP


class Pair:
    """Two brokers of one cluster. The first leads and coordinates until `take_over`."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        second.node_id = 2
        self.leaders = [Leader(broker) for broker in (first, second)]
        self.members = [first, second]
        self.coordinator = first.node_id
        self._metadata = first.on[ApiKey.METADATA]
        first.topics["t"] = 1
        # What the first one tells as metadata is what both say.
        self._leader_id = first.node_id
        for broker in (first, second):
            broker.on[ApiKey.METADATA] = self._describe
            broker.on[ApiKey.FIND_COORDINATOR] = self._find

    def take_over(self) -> None:
        """Another broker leads under the next leader epoch, and coordinates."""
        self._leader_id = self.coordinator = self.second.node_id
        self.first.leader_epoch += 1

    def silence(self, api_key: ApiKey) -> None:
        """The first broker reads such requests and does not answer."""
        self.first.on[api_key] = lambda *_: self.first.silence

    @property
    def asked_of_first(self) -> list[Any]:
        """What only a broker that responds could answer."""
        seen = self.first.seen
        return [*seen[ApiKey.METADATA], *seen[ApiKey.FIND_COORDINATOR]]

    def _describe(self, request: Any, version: int) -> Any:
        response = self._metadata(request, version)
        response.brokers = [
            MetadataResponseBroker(node_id=one.node_id, host="127.0.0.1", port=one.port)
            for one in self.members
        ]
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_id = self._leader_id
        return response

    def _find(self, request: Any, _version: int) -> FindCoordinatorResponse:
        (key,) = request.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, node_id=self.coordinator)]
        )


@pytest.fixture
async def pair(scripted: Any) -> AsyncIterator[Pair]:
    second = type(scripted)()
    await second.start()
    try:
        yield Pair(scripted, second)
    finally:
        await second.stop()


def impatient(cluster: Cluster) -> Cluster:
    cluster.silent_brokers.patience_ms = PATIENCE_MS
    return cluster


# --- producers ---


async def test_batches_in_flight_go_to_the_next_leader_in_order(pair: Pair) -> None:
    async with Producer(pair.first.address, quick(batch_size=1)) as producer:
        impatient(producer.cluster)
        await producer.send_and_wait("t", b"before")
        pair.silence(ApiKey.PRODUCE)
        asked_before = len(pair.asked_of_first)
        deliveries = [await producer.send("t", b"%d" % number) for number in range(4)]
        await pair.first.until_seen(ApiKey.PRODUCE, 2)
        await pair.second.until_seen(ApiKey.METADATA, len(pair.second.seen[ApiKey.METADATA]) + 1)
        assert len(pair.asked_of_first) == asked_before
        pair.take_over()
        # The sequences go on where the first leader's end.
        pair.leaders[1]._next = dict(pair.leaders[0]._next)
        for delivery in deliveries:
            await delivery
    assert pair.leaders[1].logs[0] == [b"0", b"1", b"2", b"3"]
    assert [header.base_sequence for header in pair.leaders[1].headers] == [1, 2, 3, 4]


async def test_a_slow_leader_is_waited_for(pair: Pair) -> None:
    responds = asyncio.Event()
    produce = pair.first.on[ApiKey.PRODUCE]

    async def slowly(request: Any, version: int) -> Any:
        await responds.wait()
        return produce(request, version)

    async with Producer(pair.first.address, quick()) as producer:
        impatient(producer.cluster)
        pair.first.on[ApiKey.PRODUCE] = slowly
        delivery = await producer.send("t", b"x")
        await pair.first.until_seen(ApiKey.PRODUCE, 1)
        # Others were asked, and named the same leader.
        await pair.second.until_seen(ApiKey.METADATA, len(pair.second.seen[ApiKey.METADATA]) + 2)
        responds.set()
        assert (await delivery).offset == 0
    assert len(pair.first.seen[ApiKey.PRODUCE]) == 1
    assert not pair.second.seen[ApiKey.PRODUCE]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_leader_that_accepts_connections_and_nothing_else_is_left(
    pair: Pair, idempotent: bool
) -> None:
    async with Producer(pair.second.address, quick(enable_idempotence=idempotent)) as producer:
        impatient(producer.cluster)
        await producer.partitions_for("t")
        pair.silence(ApiKey.API_VERSIONS)
        delivery = await producer.send("t", b"x")
        await pair.first.until_seen(ApiKey.API_VERSIONS, 1)
        pair.take_over()
        await delivery
    assert pair.leaders[1].logs[0] == [b"x"]


async def test_without_acks_a_leader_that_reads_nothing_is_left(pair: Pair) -> None:
    """The buffers to it are full: nothing more can be sent."""
    reads = asyncio.Event()

    async def stop_reading(*_: Any) -> Any:
        await reads.wait()
        return pair.first.hang_up

    pair.first.on[ApiKey.PRODUCE] = stop_reading
    settings = quick(acks=0, batch_size=1, max_request_size=64 << 20, buffer_memory=64 << 20)
    async with Producer(pair.first.address, settings) as producer:
        impatient(producer.cluster)
        stuck = await producer.send("t", b"x" * (32 << 20))
        await asyncio.sleep(2 * PATIENCE_MS / 1000)
        assert not stuck.done()
        pair.take_over()
        await stuck
        await producer.send_and_wait("t", b"y")
        await pair.second.until_seen(ApiKey.PRODUCE, 1)
        reads.set()


# --- consumers and coordinators ---


async def test_a_consumer_fetches_from_the_next_leader(pair: Pair) -> None:
    pair.silence(ApiKey.FETCH)

    def fetch(request: Any, _version: int) -> FetchResponse:
        (topic,) = request.topics
        data = encode_batch([Record(0, 0, None, b"x", [])])
        answer = PartitionData(partition_index=0, high_watermark=1, records=bytes(data))
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic_id=topic.topic_id, topic=topic.topic, partitions=[answer]
                )
            ]
        )

    pair.second.on[ApiKey.FETCH] = fetch
    settings = ConsumerSettings(retry_backoff_ms=1, fetch_max_wait_ms=10)
    async with Consumer(pair.first.address, settings) as consumer:
        impatient(consumer.cluster)
        await consumer.assign([T0])
        consumer.seek(T0, 0)
        polling = asyncio.create_task(consumer.poll(30_000))
        await pair.first.until_seen(ApiKey.FETCH, 1)
        pair.take_over()
        assert [record.value for record in (await polling)[T0]] == [b"x"]


async def test_offsets_are_looked_up_at_the_next_leader(pair: Pair) -> None:
    pair.silence(ApiKey.LIST_OFFSETS)
    pair.second.on[ApiKey.LIST_OFFSETS] = lambda *_: ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name="t", partitions=[ListOffsetsPartitionResponse(partition_index=0, offset=7)]
            )
        ]
    )
    async with Cluster(pair.first.address) as cluster:
        impatient(cluster)
        listing = asyncio.create_task(list_offsets(cluster, {T0: -1}))
        await pair.first.until_seen(ApiKey.LIST_OFFSETS, 1)
        pair.take_over()
        listed = (await listing)[T0]
        assert not isinstance(listed, KafkaError)
        assert listed.offset == 7


async def beat(connection: Connection) -> str:
    response: HeartbeatResponse = await connection.request(HeartbeatRequest(group_id="g"))
    return ErrorCode.of(response.error_code).name


async def test_a_coordinator_that_moved_is_left(pair: Pair) -> None:
    pair.silence(ApiKey.HEARTBEAT)
    pair.second.on[ApiKey.HEARTBEAT] = lambda *_: HeartbeatResponse()
    async with Cluster(pair.first.address) as cluster:
        impatient(cluster)
        beating = asyncio.create_task(ask_coordinator_once(cluster, GROUP, "g", beat))
        await pair.first.until_seen(ApiKey.HEARTBEAT, 1)
        pair.take_over()
        with pytest.raises(ConnectionFailed, match="broker 2 coordinates g now"):
            await beating
        assert await ask_coordinator_once(cluster, GROUP, "g", beat) == "NONE"


async def test_a_coordinator_is_left_only_for_one_that_says_it_is_the_next(pair: Pair) -> None:
    """A broker that is behind may still name the one before."""
    beats = asyncio.Event()

    async def slowly(*_: Any) -> HeartbeatResponse:
        await beats.wait()
        return HeartbeatResponse()

    pair.first.on[ApiKey.HEARTBEAT] = slowly
    answers = 0

    def behind(*arguments: Any) -> FindCoordinatorResponse:
        nonlocal answers
        answers += 1
        found: FindCoordinatorResponse = pair._find(*arguments)
        found.coordinators[0].node_id = 2 if answers % 2 else 1
        return found

    async with Cluster(pair.first.address) as cluster:
        impatient(cluster)
        beating = asyncio.create_task(ask_coordinator_once(cluster, GROUP, "g", beat))
        await pair.first.until_seen(ApiKey.HEARTBEAT, 1)
        pair.second.on[ApiKey.FIND_COORDINATOR] = behind
        await pair.second.until_seen(ApiKey.FIND_COORDINATOR, 2)
        beats.set()
        assert await beating == "NONE"


async def test_a_coordinator_that_accepts_connections_and_nothing_else_is_left(pair: Pair) -> None:
    pair.silence(ApiKey.API_VERSIONS)
    async with Cluster(pair.second.address) as cluster:
        impatient(cluster)
        beating = asyncio.create_task(ask_coordinator_once(cluster, GROUP, "g", beat))
        await pair.first.until_seen(ApiKey.API_VERSIONS, 1)
        pair.take_over()
        with pytest.raises(ConnectionFailed, match="broker 1 has not responded for"):
            await beating


async def test_a_coordinator_that_left_the_cluster_is_looked_up_again(pair: Pair) -> None:
    for broker in pair.members:
        broker.on[ApiKey.HEARTBEAT] = lambda *_: HeartbeatResponse()
    async with Cluster(pair.second.address) as cluster:
        await ask_coordinator_once(cluster, GROUP, "g", beat)
        pair.members.remove(pair.first)
        await cluster.refresh()
        # The others notice a little later that it coordinates no longer.
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE") as refused:
            await ask_coordinator_once(cluster, GROUP, "g", beat)
        assert refused.value.retriable
        pair.take_over()
        assert await ask_coordinator_once(cluster, GROUP, "g", beat) == "NONE"
        assert len(pair.second.seen[ApiKey.HEARTBEAT]) == 1


# --- any broker ---


async def test_metadata_comes_from_another_broker_than_one_that_is_silent(pair: Pair) -> None:
    async with Cluster(pair.first.address) as cluster:
        # Long enough for the second one to respond, whatever else the machine does.
        cluster.silent_brokers.patience_ms = 500
        pair.silence(ApiKey.METADATA)
        for _ in range(5):
            # The only idle connection leads to the silent one, which is asked once.
            await cluster.refresh()
    assert len(pair.first.seen[ApiKey.METADATA]) == 2


async def test_a_bootstrap_server_that_only_accepts_connections_delays_nobody(pair: Pair) -> None:
    pair.silence(ApiKey.API_VERSIONS)
    cluster = impatient(Cluster([pair.first.address, pair.second.address]))
    async with cluster:
        assert pair.first.seen[ApiKey.API_VERSIONS]
        assert cluster.view.brokers.keys() == {1, 2}


A, B = Address("a", 1), Address("b", 1)


async def test_the_next_broker_is_asked_when_one_is_slow_and_the_first_response_counts() -> None:
    second_asked = asyncio.Event()
    slow: list[Address] = []

    async def ask(address: Address) -> str:
        if address == B:
            second_asked.set()
            raise ConnectionFailed("refused")
        await second_asked.wait()
        return address.host

    assert await ask_in_turn([A, B], ask, patience_s=0.001, on_slow=slow.append) == "a"
    assert slow == [A]


async def test_a_timeout_of_the_last_broker_is_reported_as_one() -> None:
    async def ask(address: Address) -> str:
        raise ConnectionFailed("refused") if address == A else RequestTimedOut("too late")

    with pytest.raises(RequestTimedOut, match="too late"):
        await ask_in_turn([A, B], ask, patience_s=1, on_slow=lambda _: None)


async def test_what_a_broker_refuses_is_not_asked_of_the_next() -> None:
    asked: list[Address] = []

    async def ask(address: Address) -> str:
        asked.append(address)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await ask_in_turn([A, B], ask, patience_s=1, on_slow=lambda _: None)
    assert asked == [A]


# --- decisions ---


def view(leader: int, leader_epoch: int) -> ClusterView:
    partition = PartitionView(0, leader, leader_epoch, (1, 2), (1, 2))
    return ClusterView(
        brokers={node_id: Broker(node_id, Address("h", node_id)) for node_id in (1, 2)},
        topics={"t": TopicView("t", ZERO_UUID, False, {0: partition})},
    )


@pytest.mark.parametrize(
    ("now", "is_left"),
    [
        (view(2, 5), True),
        (view(1, 4), False),
        # A broker that is behind, and one too old to tell leader epochs.
        (view(2, 3), False),
        (view(2, 4), False),
        (view(2, -1), False),
        # It was elected again.
        (view(1, 5), False),
        (view(NO_LEADER, 5), False),
        (view(9, 5), False),
        (ClusterView(), False),
    ],
)
def test_a_leader_is_left_for_another_under_a_higher_leader_epoch(
    now: ClusterView, is_left: bool
) -> None:
    asked = LeaderAsked(1, [TopicPartition("t", 9), T0], view(1, 4))
    assert (asked.successor(now) is not None) == is_left


def test_a_coordinator_is_left_for_another() -> None:
    asked = CoordinatorAsked(1, GROUP, "g")
    assert asked.successor(1) is None
    assert asked.successor(2) == "broker 2 coordinates g now"
