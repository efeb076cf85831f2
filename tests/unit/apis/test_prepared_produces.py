"""Prepared produces are not decoded, and no client can tell."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from floodmark.apis.prepared.produces import MOST_FRONT_BYTES, MOST_PARTITIONS
from floodmark.controller.topics import TopicRef
from floodmark.records.record import Record, encode_batch
from floodmark.replication.replica import Replica
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.compiler import decoder
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from floodmark.wire.primitives import encode_varint
from fuzz_kit.raw_client import RawClient, request_bytes
from kit.flushed import NEVER_FLUSHED
from kit.waiting import wait_for

BY_NAME, BY_ID = 12, 13
TIMESTAMP_MS = 1_700_000_000_000


def produce(
    topic: str = "t", value: bytes = b"value", index: int = 0, **more: Any
) -> ProduceRequest:
    batch = bytes(encode_batch([Record(0, TIMESTAMP_MS, b"key", value, [])]))
    data = PartitionProduceData(index=index, records=more.pop("records", batch))
    topic_id = more.pop("topic_id", None)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    if topic_id is not None:
        topics[0].topic_id = topic_id
    return ProduceRequest(acks=more.pop("acks", 1), timeout_ms=10_000, topic_data=topics)


def outcome(client: RawClient, request: ProduceRequest, version: int = BY_NAME) -> tuple[int, int]:
    answer = client.ask(request, version).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


@pytest.fixture
def floodmark_settings() -> Mapping[str, str]:
    """Most tests look at the order of offsets: no answer waits for a sync."""
    return NEVER_FLUSHED


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    floodmark.create_topic("t", 2)
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


def refuse_to_decode(floodmark: BrokerThread, version: int) -> None:
    """From now on a produce that is decoded costs the connection."""

    def decode(frame: memoryview, position: int) -> Any:
        raise AssertionError("decoded")

    async def plug() -> None:
        routes = floodmark.broker.dispatch._routes
        routes[0, version] = routes[0, version]._replace(decode=decode)

    floodmark.call(plug())


@pytest.mark.parametrize("version", range(7, 13))
@pytest.mark.parametrize("acks", [1, -1])
def test_the_second_request_to_a_partition_is_not_decoded(
    floodmark: BrokerThread, client: RawClient, version: int, acks: int
) -> None:
    assert outcome(client, produce(acks=acks), version) == (0, 0)
    refuse_to_decode(floodmark, version)
    for offset, value in enumerate([b"", b"short", b"long" * 100, b"longer" * 10_000], start=1):
        assert outcome(client, produce(value=value, acks=acks), version) == (0, offset)


def test_partitions_are_told_apart(floodmark: BrokerThread, client: RawClient) -> None:
    for index in (0, 1):
        assert outcome(client, produce(index=index)) == (0, 0)
    refuse_to_decode(floodmark, BY_NAME)
    for index in (0, 1, 1):
        client.ask(produce(index=index), BY_NAME)
    ends = [floodmark.broker.services.replicas.find(("t", index)) for index in (0, 1)]
    assert [replica.log.log_end_offset for replica in ends if replica] == [2, 3]


def test_topics_with_longer_names_are_remembered_too(
    floodmark: BrokerThread, client: RawClient
) -> None:
    names = ["t", floodmark.create_topic("longer"), floodmark.create_topic("the-longest")]
    for name in names:
        assert outcome(client, produce(name)) == (0, 0)
    refuse_to_decode(floodmark, BY_NAME)
    for name in names:
        assert outcome(client, produce(name)) == (0, 1)


def test_only_so_many_partitions_are_remembered(floodmark: BrokerThread, client: RawClient) -> None:
    floodmark.create_topic("many", MOST_PARTITIONS + 1)
    for offset in range(2):
        for index in range(MOST_PARTITIONS + 1):
            assert outcome(client, produce("many", index=index)) == (0, offset)
    refuse_to_decode(floodmark, BY_NAME)
    assert outcome(client, produce("many", index=MOST_PARTITIONS - 1)) == (0, 2)
    client.send_frame(request_bytes(produce("many", index=MOST_PARTITIONS), BY_NAME))
    assert client.is_closed()


def test_a_request_with_a_long_beginning_is_not_remembered(
    floodmark: BrokerThread, client: RawClient
) -> None:
    plain = request_bytes(produce(), BY_NAME)
    header_end = plain.index(b"raw") + len(b"raw")
    tags = b"\x01\x63" + encode_varint(MOST_FRONT_BYTES) + bytes(MOST_FRONT_BYTES)
    for _ in range(2):
        client.send_frame(plain[:header_end] + tags + plain[header_end + 1 :])
        client.read_frame()
    refuse_to_decode(floodmark, BY_NAME)
    client.send_frame(plain[:header_end] + tags + plain[header_end + 1 :])
    assert client.is_closed()


def test_a_refused_batch_is_refused_as_ever(client: RawClient) -> None:
    assert outcome(client, produce()) == (0, 0)
    broken = bytearray(encode_batch([Record(0, TIMESTAMP_MS, b"key", b"value", [])]))
    broken[-1] ^= 1
    assert outcome(client, produce(records=bytes(broken))) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert outcome(client, produce()) == (0, 1)


def test_an_answer_that_waits_for_the_disk_comes_with_its_offset(
    floodmark: BrokerThread, client: RawClient
) -> None:
    topic = floodmark.create_topic("flushed", configs={"flush.messages": "2"})
    assert [outcome(client, produce(topic)) for _ in range(5)] == [(0, n) for n in range(5)]


@pytest.mark.parametrize("acks", [1, -1])
def test_a_request_whose_acknowledgement_waits_is_prepared_too(
    floodmark: BrokerThread, client: RawClient, acks: int
) -> None:
    topic = floodmark.create_topic("flushed", configs={"flush.messages": "1"})
    assert outcome(client, produce(topic, acks=acks)) == (0, 0)
    refuse_to_decode(floodmark, BY_NAME)
    answers = [outcome(client, produce(topic, acks=acks)) for _ in range(4)]
    assert answers == [(0, n) for n in range(1, 5)]


@pytest.mark.parametrize("is_prepared", [False, True])
def test_an_acknowledgement_that_fails_after_a_wait_says_so(
    floodmark: BrokerThread, client: RawClient, is_prepared: bool
) -> None:
    """Prepared and in full: the same answer when the leadership goes while a flush is awaited."""
    topic = floodmark.create_topic("flushed", configs={"flush.messages": "1"})
    if is_prepared:
        assert outcome(client, produce(topic)) == (0, 0)
    replicas = floodmark.broker.replicas
    replica = replicas.find((topic, 0))
    assert replica is not None
    offset = replica.log.log_end_offset

    async def never_flush() -> None:
        replicas._flusher.request = lambda replica: None

    async def follow() -> None:
        known = replica.core.leadership
        replicas.lead_or_follow(
            replica,
            replace(
                known,
                leader=2,
                leader_epoch=known.leader_epoch + 1,
                partition_epoch=known.partition_epoch + 1,
            ),
        )

    floodmark.call(never_flush())
    client.send_frame(request_bytes(produce(topic), BY_NAME))
    wait_for(lambda: len(replicas.produces) == 1)
    floodmark.call(follow())
    position, decode = 4, decoder(ProduceResponse, BY_NAME)
    answer, _ = decode(memoryview(client.read_frame()), position + 1)
    told = answer.responses[0].partition_responses[0]
    assert (told.error_code, told.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, offset)


def test_a_topic_made_anew_is_another_topic(floodmark: BrokerThread, client: RawClient) -> None:
    def topic_id() -> Any:
        return floodmark.broker.services.image.topics["t"].topic_id

    old = topic_id()
    assert outcome(client, produce("", topic_id=old), BY_ID) == (0, 0)
    floodmark.call(floodmark.broker.controller.delete_topics([TopicRef(name="t")]))
    unknown = (ErrorCode.UNKNOWN_TOPIC_ID, -1)
    assert outcome(client, produce("", topic_id=old), BY_ID) == unknown
    floodmark.create_topic("t")
    assert outcome(client, produce("", topic_id=old), BY_ID) == unknown
    assert outcome(client, produce("", topic_id=topic_id()), BY_ID) == (0, 0)


def test_a_topic_made_anew_under_its_name_is_written_to(
    floodmark: BrokerThread, client: RawClient
) -> None:
    assert [outcome(client, produce()) for _ in range(3)] == [(0, n) for n in range(3)]
    floodmark.call(floodmark.broker.controller.delete_topics([TopicRef(name="t")]))
    assert outcome(client, produce()) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    floodmark.create_topic("t")
    assert [outcome(client, produce()) for _ in range(3)] == [(0, n) for n in range(3)]


def test_a_partition_whose_files_have_failed_is_not_written_to(
    floodmark: BrokerThread, client: RawClient
) -> None:
    async def fail() -> None:
        floodmark.broker.replicas.take_offline([("t", 0)])

    assert [outcome(client, produce()) for _ in range(3)] == [(0, n) for n in range(3)]
    floodmark.call(fail())
    assert outcome(client, produce()) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert outcome(client, produce(index=1)) == (0, 0)


def held_replicas(topic: str) -> list[Replica]:
    gc.collect()
    found = [one for one in gc.get_objects() if isinstance(one, Replica)]
    return [replica for replica in found if replica.key[0] == topic]


def test_a_producer_that_writes_elsewhere_does_not_hold_a_deleted_partition(
    floodmark: BrokerThread, client: RawClient
) -> None:
    assert [outcome(client, produce()) for _ in range(2)] == [(0, 0), (0, 1)]
    assert held_replicas("t")
    floodmark.call(floodmark.broker.controller.delete_topics([TopicRef(name="t")]))
    floodmark.create_topic("other")
    assert [outcome(client, produce("other")) for _ in range(2)] == [(0, 0), (0, 1)]
    assert not held_replicas("t")


def test_a_fault_strikes_a_repeated_request_as_well(
    floodmark: BrokerThread, client: RawClient
) -> None:
    assert outcome(client, produce()) == (0, 0)
    floodmark.faults.fail("PRODUCE", ErrorCode.NOT_ENOUGH_REPLICAS)
    assert outcome(client, produce())[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert outcome(client, produce()) == (0, 1)


class Conversation:
    """Frames and their answers. A connection that the broker ends is followed by a new one."""

    def __init__(self, broker: BrokerThread, *, remembers: bool) -> None:
        self._broker = broker
        self._remembers = remembers
        self._client = RawClient(broker.bootstrap_servers)

    def say(self, frame: bytes) -> list[bytes] | str:
        """All that is answered to a frame; it may be nothing, so another request follows it."""
        if not self._remembers:
            self.start_anew()
        question = request_bytes(ApiVersionsRequest(), 0)
        end = b"\0\0\0\x63"
        answers: list[bytes] = []
        try:
            self._client.send_frame(frame)
            self._client.send_frame(question[:4] + end + question[8:])
            while not (answer := self._client.read_frame()).startswith(end):
                answers.append(answer)
        except ConnectionError:
            self.start_anew()
            return "closed"
        return answers

    def start_anew(self) -> None:
        self.close()
        self._client = RawClient(self._broker.bootstrap_servers)

    def close(self) -> None:
        with suppress(OSError):
            self._client.__exit__(None, None, None)


def damaged(frame: bytes) -> Iterator[bytes]:
    for position in range(len(frame)):
        yield frame[:position] + frame[position + 1 :]
        for value in (0, 1, 2, 127, 128, 255):
            yield frame[:position] + bytes([value]) + frame[position + 1 :]
    yield frame + b"\0"
    yield frame[:-1] + b"\x01\x63\x01x"


@pytest.mark.parametrize("version", [8, BY_NAME])
def test_damaged_requests_are_answered_alike_by_who_remembers_and_who_does_not(
    tmp_path: Path, version: int
) -> None:
    good = request_bytes(produce(), version)
    with BrokerThread(tmp_path / "a") as first, BrokerThread(tmp_path / "b") as second:
        for broker in (first, second):
            broker.create_topic("t", 2)
        remembering = Conversation(first, remembers=True)
        forgetful = Conversation(second, remembers=False)
        for frame in damaged(good):
            for said in (good, frame):
                assert remembering.say(said) == forgetful.say(said), said.hex()
        remembering.close()
        forgetful.close()


# Refusals


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_refusal_says_where_the_log_begins_as_far_as_kafkas_does(
    floodmark: BrokerThread, client: RawClient, is_repeated: bool
) -> None:
    assert outcome(client, produce())[0] == ErrorCode.NONE
    if is_repeated:
        assert outcome(client, produce())[0] == ErrorCode.NONE
    log = floodmark.broker.logs.get("t", 0)
    assert log is not None
    batch = bytearray(encode_batch([Record(0, TIMESTAMP_MS, b"key", b"value", [])]))
    batch[-1] ^= 1
    for records, error_code, expected in (
        (too_far_ahead(), ErrorCode.INVALID_TIMESTAMP, log.log_start_offset),
        (bytes(batch), ErrorCode.CORRUPT_MESSAGE, -1),
    ):
        request = produce(records=records)
        answer = client.ask(request, BY_NAME).responses[0].partition_responses[0]
        assert (answer.error_code, answer.log_start_offset) == (error_code, expected)
        assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)


def too_far_ahead() -> bytes:
    return bytes(encode_batch([Record(0, 4_000_000_000_000, b"key", b"value", [])]))
