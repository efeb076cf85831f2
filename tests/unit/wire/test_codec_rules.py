"""What encoders and decoders accept, refuse and leave alone."""

import struct
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import decode, decode_exact, encode, encode_parts, encoder
from floodmark.wire.encode_source import LONGEST_SHORT
from floodmark.wire.headers import decode_request_header
from floodmark.wire.internal.classic_groups import GroupMetadataKey, OffsetCommitKey
from floodmark.wire.internal.consumer_groups import ConsumerGroupMemberMetadataValue
from floodmark.wire.internal.consumer_offsets import KEY_CLASSES, RecordType
from floodmark.wire.internal.consumer_protocol import ConsumerProtocolSubscription
from floodmark.wire.internal.framing import (
    decode_key,
    decode_versioned,
    decode_versioned_or_newest,
    encode_key,
    encode_versioned,
)
from floodmark.wire.messages import request_class, response_class
from floodmark.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from floodmark.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from floodmark.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from floodmark.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from floodmark.wire.schema import (
    DecodeError,
    EncodeError,
    UnsupportedVersion,
    array,
    int16,
    int32,
    int64,
    message,
    string,
)


@message(None, "data", versions="0-2", flexible="1+")
class Thing:
    name: str = string()
    note: str | None = string(nullable="0+", default=None)
    numbers: list[int] = array("int32")
    added: int = int16("2+")
    hint: int = int16("2+", ignorable=True)
    extra: int = int64("1+", default=-1, tag=0, ignorable=True)


@message(None, "data", versions="0", flexible="0+")
class Empty:
    value: int = int32()


def produce_request(records: Any) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def fetch_response(records: Any) -> FetchResponse:
    partition = PartitionData(partition_index=0, records=records)
    topic = FetchableTopicResponse(topic_id=UUID(int=1), partitions=[partition])
    return FetchResponse(responses=[topic])


def test_a_version_outside_the_definition_is_unsupported() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        encoder(Thing, 3)
    assert (caught.value.message_class, caught.value.version) == (Thing, 3)
    with pytest.raises(UnsupportedVersion):
        decode(Thing, b"", -1)


def test_a_set_field_that_the_version_lacks_is_refused() -> None:
    with pytest.raises(EncodeError, match=r"Thing\.added .* version 1"):
        encode(Thing(added=5), 1)


def test_an_ignorable_field_that_the_version_lacks_is_dropped() -> None:
    assert decode(Thing, encode(Thing(name="a", hint=5, extra=6), 0), 0) == Thing(name="a")


@pytest.mark.parametrize(
    "wrong",
    [
        Thing(added=1 << 15),
        Thing(name=None),
        Thing(name="\ud800"),
        Thing(name="x" * 32768),
        Thing(numbers=None),
        Thing(numbers=["a"]),  # type: ignore[list-item]
    ],
)
def test_a_value_that_its_field_cannot_hold_is_an_encode_error(wrong: Thing) -> None:
    with pytest.raises(EncodeError):
        encode(wrong, 2)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("text", ["x" * 40_000, "ü" * 20_000, "漢" * 11_000, "x" * 32_767])
def test_a_text_for_people_that_is_too_long_is_cut_between_characters(
    text: str, version: int
) -> None:
    answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message=text)])
    (topic,) = decode(CreateTopicsResponse, encode(answer, version), version).topics
    assert topic.error_message is not None
    assert text.startswith(topic.error_message)
    assert 32_764 < len(topic.error_message.encode()) <= 32_767


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "ends before"),
        (b"\x00", "name is null"),
        (b"\x7fab", "name claims length 126"),
        (b"\xff\xff\xff\xff\x07", "claims length"),
        (b"\xff\xff\xff\xff\x7f", "exceeds an int32"),
        (b"\xff\xff\xff\xff\xff\x01", "longer than five bytes"),
        (b"\x01\x00\x00", "numbers is null"),
        (b"\x01\x00\x05abc", "numbers claims length 4, 3 bytes remain"),
        (b"\x01\x00\x01\x91\x4e" + bytes(20_010), "10001 tagged fields"),
        (b"\x01\x00\x01\x01\x05\x7fab", "tagged field 5 claims 127 bytes"),
        (b"\x01\x00\x01\x01\x00\x09" + bytes(9), "extra is not as long as it claims"),
    ],
)
def test_bytes_that_lie_are_refused_with_a_reason(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decode(Thing, memoryview(data), 1)


def test_a_string_that_replacement_characters_make_too_long_is_refused() -> None:
    """It could not be answered or kept: a string has 32,767 bytes."""

    def thing(name: bytes) -> bytes:
        return encode(Thing(name="?" * len(name)), 1).replace(b"?" * len(name), name)

    longest = b"\xff" * (32767 // 3)
    assert len(decode(Thing, thing(longest), 1).name.encode()) == 32766
    with pytest.raises(DecodeError, match="replacement characters"):
        decode(Thing, thing(longest + b"\xff"), 1)
    for size, is_refused in ((len(longest), False), (len(longest) + 1, True)):
        header = bytes.fromhex("0003 0001 00000007") + size.to_bytes(2, "big") + b"\xff" * size
        with pytest.raises(DecodeError) if is_refused else nullcontext():
            decode_request_header(header)


def test_a_string_that_is_not_utf_8_is_read_with_replacement_characters_as_in_java() -> None:
    assert decode(Thing, b"\x03\xff\xfe\x00\x01\x00", 1).name == "\ufffd\ufffd"
    header = bytes.fromhex("0003 0001 00000007 0003") + b"a\xff\xfe"
    assert decode_request_header(header)[0].client_id == "a\ufffd\ufffd"


def test_a_string_over_kafkas_limit_is_refused_even_when_the_bytes_are_there() -> None:
    with pytest.raises(DecodeError, match="32768"):
        decode(Thing, b"\x81\x80\x02" + b"x" * 40_000, 1)


def test_an_array_over_a_million_is_refused_even_when_the_bytes_are_there() -> None:
    claim = (1_000_001).to_bytes(4, "big")
    with pytest.raises(DecodeError, match="1000001"):
        decode(Thing, b"\0\0\xff\xff" + claim + bytes(1_000_001), 0)


def test_a_negative_length_is_refused_where_null_is_not_allowed() -> None:
    with pytest.raises(DecodeError, match="negative length -1"):
        decode(Thing, b"\xff\xff", 0)
    with pytest.raises(DecodeError, match="negative length -2"):
        decode(Thing, b"\0\0\xff\xfe", 0)


def test_unknown_tagged_fields_are_skipped() -> None:
    assert decode_exact(Empty, b"\0\0\0\x05\x02\x07\x03abc\x90\x01\x00", 0) == Empty(value=5)
    data = b"\x02a\x00\x01\x02\x00\x08" + (9).to_bytes(8, "big") + b"\x05\x01z"
    assert decode_exact(Thing, data, 1) == Thing(name="a", extra=9)


def test_bytes_behind_a_message_are_refused_only_on_request() -> None:
    data = encode(Empty(value=1), 0) + b"x"
    assert decode(Empty, data, 0) == Empty(value=1)
    with pytest.raises(DecodeError, match="1 bytes are left over"):
        decode_exact(Empty, data, 0)


def test_a_message_is_read_at_an_offset() -> None:
    assert decode(Empty, b"ab" + encode(Empty(value=1), 0), 0, 2) == Empty(value=1)


def test_decoded_records_share_the_memory_of_the_request() -> None:
    buffer = bytearray(encode(produce_request(b"batch"), 9))
    records = decode(ProduceRequest, memoryview(buffer), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    position = bytes(buffer).index(b"batch")
    buffer[position] = ord("B")
    assert bytes(records) == b"Batch"


@dataclass
class FileSlice:
    size_bytes: int


def test_records_are_appended_to_the_parts_untouched() -> None:
    slices = [FileSlice(300), FileSlice(5)]
    whole = encode(fetch_response(bytes(305)), 13)
    for records in (slices, [memoryview(bytes(300)), b"12345"]):
        parts: list[Any] = []
        encode_parts(fetch_response(records), 13, parts)
        assert all(any(part is record for part in parts) for record in records)
        content = b"".join(
            bytes(part.size_bytes)
            if isinstance(part, FileSlice)
            else bytes(len(part))
            if any(part is record for record in records)
            else part
            for part in parts
        )
        assert content == whole


@pytest.mark.parametrize("records", [b"", b"abc", bytearray(b"abc"), memoryview(b"abc"), None])
def test_records_may_be_any_kind_of_bytes_or_null(records: Any) -> None:
    encoded = encode(fetch_response(records), 12 + 1)
    decoded = decode(FetchResponse, encoded, 13).responses[0].partitions[0].records
    assert (decoded is None) == (records is None)
    assert records is None or decoded == records


def test_a_null_array_and_an_empty_array_are_told_apart() -> None:
    assert decode(MetadataRequest, encode(MetadataRequest(topics=None), 12), 12).topics is None
    assert decode(MetadataRequest, encode(MetadataRequest(topics=[]), 12), 12).topics == []


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("count", [0, 1, LONGEST_SHORT, LONGEST_SHORT + 1, 130])
def test_arrays_of_numbers_are_written_alike_whatever_their_length(
    version: int, count: int
) -> None:
    partition = MetadataResponsePartition(
        error_code=1,
        partition_index=2,
        replica_nodes=list(range(count)),
        isr_nodes=[-1] * count,
        offline_replicas=list(range(count, 0, -1)),
    )
    topic = MetadataResponseTopic(name="t", partitions=[partition])
    response = MetadataResponse(topics=[topic])
    encoded = encode(response, version)
    assert decode_exact(MetadataResponse, encoded, version) == response
    assert struct.pack(f">{count}i", *range(count)) in encoded


def test_a_null_tagged_structure_is_written_as_kafka_writes_it() -> None:
    # The default is an empty structure, so null takes a tag of its own: tag 0, one byte, zero.
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert encode(value, 0).endswith(b"\x01\x00\x01\x00")
    assert decode(ConsumerGroupMemberMetadataValue, encode(value, 0), 0) == value


def test_classes_are_found_by_api_key() -> None:
    assert request_class(ApiKey.PRODUCE) is ProduceRequest
    assert response_class(ApiKey.FETCH) is FetchResponse


def test_a_key_carries_its_record_type() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    data = encode_key(key, RecordType.OFFSET_COMMIT)
    assert data == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert decode_key(KEY_CLASSES, data) == key
    assert decode_key(KEY_CLASSES, b"\x00\x63rest") is None
    assert decode_key(KEY_CLASSES, b"\x00\x02\x00\x01g") == GroupMetadataKey(group="g")


def test_a_datum_carries_its_version() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], generation_id=4)
    data = encode_versioned(subscription, 2)
    assert data[:2] == b"\x00\x02"
    assert decode_versioned(ConsumerProtocolSubscription, data) == subscription
    with pytest.raises(DecodeError, match="too short"):
        decode_versioned(ConsumerProtocolSubscription, b"\x00")


def test_a_newer_version_of_the_consumer_protocol_is_read_as_our_newest() -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], rack_id="r")
    data = b"\x00\x09" + encode(subscription, 3) + b"fields to come"
    assert decode_versioned_or_newest(ConsumerProtocolSubscription, data) == subscription
    with pytest.raises(UnsupportedVersion):
        decode_versioned(ConsumerProtocolSubscription, data)
