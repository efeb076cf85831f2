"""What clients must not send, sent to a running broker.

Each case gets Kafka's error code or the end of its own connection; a connection that is ended is
told of in the log; and a client that was there all along is served as before.
"""

import logging
import resource
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
import zstandard
from fastcrc import crc32

from floodmark.records.compression import Compression
from floodmark.records.record import Record, encode_batch
from floodmark.testing.broker_thread import BrokerThread
from floodmark.testing.memory_files import MemoryFiles
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.api_versions import ApiVersionsRequest
from floodmark.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from floodmark.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from floodmark.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from fuzz_kit.raw_client import RawClient, request_bytes

HEADER_BYTES = 61
FRAME_LIMIT = 100 * 1024 * 1024
PRODUCE_KEY, METADATA_KEY, API_VERSIONS_KEY = 0, 3, 18


def batch(
    value: bytes = b"value",
    *,
    key: bytes | None = b"key",
    is_control: bool = False,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    return encode_batch(
        [Record(0, int(time.time() * 1000), key, value, [])],
        is_control=is_control,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
    )


def produce_request(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def produce(client: RawClient, topic: str, records: bytes | None, **options: int) -> ErrorCode:
    answer = client.ask(produce_request(topic, records, **options), 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@pytest.fixture
def client(floodmark: BrokerThread) -> Iterator[RawClient]:
    with RawClient(floodmark.bootstrap_servers) as client:
        yield client


@pytest.fixture(autouse=True)
def others_are_served(request: pytest.FixtureRequest) -> Iterator[None]:
    """A neighbour that connected before the bad input must be able to produce after it."""
    if "floodmark" not in request.fixturenames:
        yield
        return
    floodmark = request.getfixturevalue("floodmark")
    topic = request.getfixturevalue("floodmark_topic")
    with RawClient(floodmark.bootstrap_servers) as neighbour:
        neighbour.ask(ApiVersionsRequest(), 0)
        yield
        assert produce(neighbour, topic, bytes(batch())) is ErrorCode.NONE


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, -1)


# What ends the connection


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ((50).to_bytes(4, "big") + header(999, 0) + bytes(40), "API key 999 is not supported"),
        ((50).to_bytes(4, "big") + header(METADATA_KEY, 99) + bytes(40), "METADATA v99"),
        ((50).to_bytes(4, "big") + header(METADATA_KEY, -1) + bytes(40), "METADATA v-1"),
        ((FRAME_LIMIT + 1).to_bytes(4, "big"), "the limit is 104857600"),
        ((-5).to_bytes(4, "big", signed=True), "a frame of -5 bytes"),
        ((0).to_bytes(4, "big"), "no complete header"),
        ((4).to_bytes(4, "big") + b"\x00\x03\x00\x01", "no complete header"),
        ((100).to_bytes(4, "big") + b"\xff" * 100, "is not supported"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "the limit is 104857600"),
        (b"GET / HTTP/1.1\r\n\r\n", "the limit is 104857600"),
        (
            (14).to_bytes(4, "big") + header(METADATA_KEY, 1) + b"\x7f\xff\xff\xff",
            "invalid request",
        ),
    ],
    ids=[
        "unknown API",
        "version too high",
        "negative version",
        "oversized frame",
        "negative frame",
        "empty frame",
        "frame without header",
        "garbage",
        "TLS",
        "HTTP",
        "lying array",
    ],
)
def test_what_cannot_be_answered_ends_its_connection_with_a_log_line(
    client: RawClient, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    client.send(data)
    assert client.is_closed()
    assert any(
        record.levelno == logging.WARNING and reason in record.getMessage()
        for record in caplog.records
    ), [record.getMessage() for record in caplog.records]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_every_truncation_of_a_request_ends_its_connection_or_is_answered(
    floodmark: BrokerThread, floodmark_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole = request_bytes(produce_request(floodmark_topic, bytes(batch())), 9)
    for size in range(len(whole)):
        with RawClient(floodmark.bootstrap_servers) as client:
            client.send_frame(whole[:size])
            assert client.is_closed(), f"{size} bytes of {len(whole)} were taken for a request"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_half_a_request_and_silence_holds_up_nobody(
    client: RawClient, floodmark: BrokerThread
) -> None:
    client.send((1_000_000).to_bytes(4, "big") + header(METADATA_KEY, 1))
    with RawClient(floodmark.bootstrap_servers) as another:
        assert another.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE


def test_an_unanswered_produce_that_fails_ends_its_connection(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.send_frame(request_bytes(produce_request("no-such-topic", bytes(batch()), acks=0), 9))
    assert client.is_closed()
    assert "produce with acks=0" in caplog.text


def test_an_unanswered_produce_of_an_old_version_ends_its_connection(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    # What it brought is not stored, and its sender must not believe that it was.
    no_acks_and_no_topics = struct.pack(">hii", 0, 1000, 0)
    client.send_frame(header(PRODUCE_KEY, 2) + no_acks_and_no_topics)
    assert client.is_closed()
    assert "produce v2 with acks=0" in caplog.text


def test_an_unknown_version_of_api_versions_is_answered_with_the_ranges(client: RawClient) -> None:
    client.send_frame(header(API_VERSIONS_KEY, 99) + b"\x00")
    correlation_id, error_code, count = struct.unpack_from(">ihi", client.read_frame())
    assert (correlation_id, error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
    assert count > 10


# What is answered with an error code

LARGE = 1_048_588


def flipped(records: bytearray, position: int) -> bytes:
    records[position] ^= 0x01
    return bytes(records)


BAD_BATCHES: dict[str, tuple[Callable[[], bytes | None], ErrorCode]] = {
    "bad checksum": (lambda: flipped(batch(), 70), ErrorCode.CORRUPT_MESSAGE),
    "oversized batch": (lambda: bytes(batch(bytes(LARGE))), ErrorCode.MESSAGE_TOO_LARGE),
    "truncated batch": (lambda: bytes(batch())[:-3], ErrorCode.INVALID_RECORD),
    "two batches": (lambda: bytes(batch() + batch()), ErrorCode.INVALID_RECORD),
    "control batch": (lambda: bytes(batch(is_control=True)), ErrorCode.INVALID_RECORD),
    "old magic": (
        lambda: bytes(batch())[:16] + b"\x01" + bytes(batch())[17:],
        ErrorCode.INVALID_RECORD,
    ),
    "no records": (lambda: b"", ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_gets_kafkas_error_code_and_the_connection_goes_on(
    client: RawClient, floodmark_topic: str, name: str
) -> None:
    make, expected = BAD_BATCHES[name]
    assert produce(client, floodmark_topic, make()) is expected
    assert produce(client, floodmark_topic, bytes(batch())) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "expected"),
    [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)],
)
def test_zstd_is_refused_in_versions_that_do_not_know_it(
    client: RawClient, floodmark_topic: str, version: int, expected: ErrorCode
) -> None:
    records = encode_batch([Record(0, 1, None, b"v", [])], compression=Compression.ZSTD)
    for _ in range(2):
        answer = client.ask(produce_request(floodmark_topic, bytes(records)), version)
        assert answer.responses[0].partition_responses[0].error_code == expected


def test_a_gap_in_a_producers_sequence_is_refused(client: RawClient, floodmark_topic: str) -> None:
    first, gap = (bytes(batch(producer_id=5, base_sequence=number)) for number in (0, 7))
    assert produce(client, floodmark_topic, first) is ErrorCode.NONE
    assert produce(client, floodmark_topic, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(client, floodmark_topic, first) is ErrorCode.NONE, "a repeat is no mistake"


def test_a_record_without_key_is_refused_where_keys_are_needed(
    client: RawClient, floodmark: BrokerThread
) -> None:
    floodmark.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    assert produce(client, "compacted", bytes(batch(key=None))) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("topic", ["no-such-topic", "bad name!", "", "x" * 300])
def test_a_produce_to_what_does_not_exist_is_refused(client: RawClient, topic: str) -> None:
    assert produce(client, topic, bytes(batch())) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_a_produce_to_a_missing_partition_is_refused(
    client: RawClient, floodmark_topic: str, partition: int
) -> None:
    answer = produce(client, floodmark_topic, bytes(batch()), partition=partition)
    assert answer is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_produce_to_an_unknown_topic_id_is_refused(client: RawClient) -> None:
    data = PartitionProduceData(index=0, records=bytes(batch()))
    topic = TopicProduceData(topic_id=UUID(int=12345), partition_data=[data])
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 13)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_that_mean_nothing_are_refused(client: RawClient, floodmark_topic: str) -> None:
    answer = produce(client, floodmark_topic, bytes(batch()), acks=5)
    assert answer is ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("name", ["bad name!", "", "..", "x" * 250])
def test_an_invalid_topic_name_is_refused_wherever_it_is_new(client: RawClient, name: str) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    assert client.ask(asked, 9).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("partitions", [0, -2])
def test_an_impossible_number_of_partitions_is_refused(client: RawClient, partitions: int) -> None:
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    assert answer.topics[0].error_code == ErrorCode.INVALID_PARTITIONS


def test_more_partitions_than_one_request_may_make_are_refused(client: RawClient) -> None:
    topic = CreatableTopic(name="t", num_partitions=10_001, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("offset", [-7, 1, 2**63 - 1])
def test_a_fetch_outside_the_log_is_refused(
    client: RawClient, floodmark_topic: str, offset: int
) -> None:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    topic = FetchTopic(topic=floodmark_topic, partitions=[partition])
    answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic]), 11)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_session_that_goes_on_in_an_older_version_is_told_what_that_knows(
    client: RawClient, floodmark_topic: str
) -> None:
    """Where the logs part can be said from version 12 on; before, that the offset is not there."""
    partition = FetchPartition(
        partition=0, fetch_offset=7, last_fetched_epoch=0, partition_max_bytes=1000
    )
    topic = FetchTopic(topic=floodmark_topic, partitions=[partition])
    opened = client.ask(FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic]), 12)
    assert opened.responses[0].partitions[0].diverging_epoch.end_offset == 0
    goes_on = FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=1)
    answer = client.ask(goes_on, 9)
    (told,) = answer.responses[0].partitions
    assert (told.partition_index, told.error_code) == (0, ErrorCode.OFFSET_OUT_OF_RANGE)


def test_offsets_of_a_missing_partition_are_refused(
    client: RawClient, floodmark_topic: str
) -> None:
    partition = ListOffsetsPartition(partition_index=9, timestamp=-1)
    topic = ListOffsetsTopic(name=floodmark_topic, partitions=[partition])
    answer = client.ask(ListOffsetsRequest(topics=[topic]), 5)
    code = answer.topics[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def decompression_bomb(size_bytes: int) -> bytes:
    """A batch of a few kilobytes that claims one record and unpacks to `size_bytes`."""
    packer = zstandard.ZstdCompressor().compressobj()
    zeros = bytes(1024 * 1024)
    packed = b"".join(packer.compress(zeros) for _ in range(size_bytes // len(zeros)))
    bomb = batch()[:HEADER_BYTES] + packed + packer.flush()
    struct.pack_into(">i", bomb, 8, len(bomb) - 12)
    struct.pack_into(">h", bomb, 21, Compression.ZSTD)
    struct.pack_into(">I", bomb, 17, crc32.iscsi(bytes(bomb[21:])))
    return bytes(bomb)


def test_a_decompression_bomb_is_refused_where_records_are_unpacked(
    client: RawClient, floodmark: BrokerThread
) -> None:
    floodmark.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert produce(client, "compacted", decompression_bomb(1024**3)) is ErrorCode.CORRUPT_MESSAGE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 300 * 1024


# The disk


def test_a_full_disk_refuses_what_does_not_fit_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    with (
        BrokerThread(tmp_path, files=files) as floodmark,
        RawClient(floodmark.bootstrap_servers) as client,
    ):
        topic = floodmark.create_topic("t")
        assert produce(client, topic, bytes(batch())) is ErrorCode.NONE
        files.faults.space_bytes = 20
        assert produce(client, topic, bytes(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
        assert "no space left" in caplog.text
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        wanted = FetchTopic(topic=topic, partitions=[partition])
        answer = client.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[wanted]), 11)
        assert answer.responses[0].partitions[0].high_watermark == 1
        files.faults.space_bytes = None
        assert produce(client, topic, bytes(batch())) is ErrorCode.NONE
