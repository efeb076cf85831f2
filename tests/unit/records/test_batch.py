"""The batch header: reading, walking, patching and restamping."""

from __future__ import annotations

import pytest

from floodmark.records.batch import (
    HEADER_BYTES,
    TimestampType,
    add_sequence,
    crc_ok,
    iter_headers,
    patch,
    read_header,
    restamp,
)
from floodmark.records.errors import CorruptRecord, UnsupportedMagic
from floodmark.records.record import Record, decode_records, encode_batch


def batch_of(count: int, base_offset: int = 0, timestamp: int = 1000) -> bytearray:
    records = [Record(0, timestamp + i, b"k%d" % i, b"v%d" % i, []) for i in range(count)]
    return encode_batch(records, base_offset=base_offset)


def test_a_header_tells_size_and_offsets() -> None:
    batch = batch_of(3, base_offset=7)
    header = read_header(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (7, 9, 10)
    assert header.records_count == 3
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_control
    assert not header.is_transactional


def test_walking_stops_at_an_incomplete_last_batch() -> None:
    first, second = batch_of(1), batch_of(2, base_offset=1)
    buffer = bytes(first + second)
    for cut in range(len(first), len(buffer)):
        assert [position for position, _ in iter_headers(buffer[:cut])] == [0]
    assert [position for position, _ in iter_headers(buffer)] == [0, len(first)]


def test_patching_leaves_the_checksum_valid() -> None:
    batch = batch_of(2)
    patch(batch, 0, base_offset=1 << 40, leader_epoch=9)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 9)
    assert crc_ok(batch, 0, header)
    assert [record.offset for record in decode_records(batch)] == [1 << 40, (1 << 40) + 1]


def test_restamping_gives_every_record_the_append_time() -> None:
    batch = batch_of(2)
    header = restamp(batch, 0, read_header(batch), timestamp_ms=5555)
    assert header == read_header(batch)
    assert crc_ok(batch, 0, header)
    assert [record.timestamp for record in decode_records(batch)] == [5555, 5555]


def test_every_flipped_bit_behind_the_checksum_is_found() -> None:
    batch = batch_of(2)
    header = read_header(batch)
    for position in range(21, len(batch)):
        batch[position] ^= 0x04
        assert not crc_ok(batch, 0, header)
        batch[position] ^= 0x04


def test_old_formats_are_refused_by_name() -> None:
    batch = batch_of(1)
    batch[16] = 1
    with pytest.raises(UnsupportedMagic, match="message format 1"):
        list(iter_headers(batch))


def test_a_length_below_a_header_is_corrupt() -> None:
    batch = batch_of(1)
    batch[8:12] = (10).to_bytes(4, "big")
    with pytest.raises(CorruptRecord):
        list(iter_headers(batch))


def test_a_short_buffer_has_no_header() -> None:
    with pytest.raises(CorruptRecord):
        read_header(bytes(HEADER_BYTES - 1))


def test_sequences_wrap_to_zero() -> None:
    assert add_sequence(2**31 - 1, 1) == 0
    assert add_sequence(2**31 - 2, 3) == 1
