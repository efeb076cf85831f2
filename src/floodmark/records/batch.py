"""The 61-byte header of a record batch (magic 2), read and patched in place.

On the hot path of produce, fetch and recovery. Brokers read only headers and leave the records
compressed. The checksum does not cover base offset and leader epoch, so a leader can set them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from fastcrc import crc32

from floodmark.records.compression import Compression
from floodmark.records.errors import CorruptRecord, UnsupportedMagic
from floodmark.vocabulary import (
    NO_SEQUENCE,
)

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
# Base offset and batch length: enough to know the size of a batch.
LOG_OVERHEAD_BYTES: Final = 12
MIN_BATCH_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
# The checksum covers everything from the attributes on.
CRC_START: Final = 21

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40


_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_ATTRIBUTES_POSITION: Final = 21
_LEADER_EPOCH_POSITION: Final = 12
_MAX_TIMESTAMP_POSITION: Final = 35


class TimestampType(IntEnum):
    """Whether the producer or the broker sets the timestamps."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The fields of a batch header in their order on disk and on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """The codec. Raises CorruptRecord for an unknown id."""
        return Compression.of(self.attributes & COMPRESSION_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType((self.attributes & TIMESTAMP_TYPE_BIT) >> 3)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Compaction keeps the delete horizon in the base timestamp when this bit is set
        (KIP-534)."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_sequence(self.base_sequence, self.last_offset_delta)


def add_sequence(sequence: int, increment: int) -> int:
    """Sequences wrap from 2^31 - 1 to 0."""
    return (sequence + increment) & 0x7FFFFFFF


HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A header as an unnamed tuple. On the produce path, creating a named tuple takes longer than using
it. Every BatchHeader is one of these."""

ATTRIBUTES: Final = BatchHeader._fields.index("attributes")

# Converts unpacked fields into a header. `BatchHeader._make` does the same in a Python function,
# which takes as long as unpacking.
header_of: Final[Callable[[tuple[Any, ...]], BatchHeader]] = partial(tuple.__new__, BatchHeader)


def writable(buffer: Buffer) -> memoryview:
    """A writable view of the bytes, or of a copy if they are read-only."""
    view = memoryview(buffer)
    return memoryview(bytearray(view)) if view.readonly else view


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at this position. Checks only that it is complete; the caller checks magic and
    size where they matter."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptRecord(
            f"a batch header needs {HEADER_BYTES} bytes, {len(buffer) - position} left"
        )
    return header_of(HEADER.unpack_from(buffer, position))


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yields (position, header) of each complete batch. A fetch may end with an incomplete one."""
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = header_of(HEADER.unpack_from(buffer, position))
        check_shape(header)
        next_position = position + LOG_OVERHEAD_BYTES + header.batch_length
        if next_position > end:
            return
        yield position, header
        position = next_position


def check_shape(header: BatchHeader) -> None:
    """Raises if this is not a batch of magic 2. Call it before trusting the length."""
    if header.magic != MAGIC:
        if header.magic in (0, 1):
            raise UnsupportedMagic(f"message format {header.magic} is not supported, only {MAGIC}")
        raise CorruptRecord(f"unknown magic {header.magic} at offset {header.base_offset}")
    if header.batch_length < MIN_BATCH_LENGTH:
        raise CorruptRecord(
            f"batch length {header.batch_length} at offset {header.base_offset} is too short"
        )


def compute_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """CRC32C from the attributes to the end of the batch."""
    view = memoryview(buffer)[position + CRC_START : position + size_bytes]
    crc: int = crc32.iscsi(view)
    return crc


def crc_ok(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    size_bytes = header.size_bytes
    if len(buffer) - position < size_bytes or size_bytes < HEADER_BYTES:
        return False
    return compute_crc(buffer, position, size_bytes) == header.crc


def patch(buffer: WritableBuffer, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Sets the offset and the leader epoch in place. The checksum covers neither."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def restamp(
    buffer: WritableBuffer, position: int, header: BatchHeader, *, timestamp_ms: int
) -> BatchHeader:
    """Sets log-append time in place: attribute bit, maximum timestamp and a new checksum."""
    attributes = header.attributes | TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    crc = compute_crc(buffer, position, header.size_bytes)
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)
    return header._replace(attributes=attributes, max_timestamp=timestamp_ms, crc=crc)
