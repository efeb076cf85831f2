"""What a client may append: the rules of one topic, applied to one batch.

Called by replication's partition for every produce. The ordinary way looks at the header and the
checksum only; records are decoded where a rule needs them (compacted topics, a lower bound on
timestamps, another compression, the full check).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NoReturn

from fastcrc import crc32

from floodmark.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MIN_BATCH_LENGTH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    HeaderFields,
    TimestampType,
    header_of,
    restamp,
)
from floodmark.records.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Compression
from floodmark.records.errors import CorruptRecord, InvalidBatch
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.wire.errors import ErrorCode

NO_LIMIT_MS: Final = (1 << 63) - 1
_LAST_COMPRESSION: Final = int(Compression.ZSTD)


@dataclass(slots=True, frozen=True)
class ProduceRules:
    """A topic's settings as validation needs them; made once per change of the topic's
    configuration."""

    max_message_bytes: int = 1048588
    is_compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = 3_600_000
    # None keeps what the producer chose (`compression.type=producer`).
    compression: Compression | None = None
    compression_level: int | None = None
    check_records: bool = False
    decompressed_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES

    # Whether nothing is asked for that would take more than a look at the header.
    is_plain: bool = field(init=False)
    needs_records: bool = field(init=False)

    def __post_init__(self) -> None:
        needs_records = (
            self.is_compacted or self.check_records or self.timestamp_before_max_ms < NO_LIMIT_MS
        )
        is_plain = (
            not needs_records
            and self.compression is None
            and self.timestamp_type is TimestampType.CREATE_TIME
        )
        object.__setattr__(self, "needs_records", needs_records)
        object.__setattr__(self, "is_plain", is_plain)


def validate_produce(buffer: memoryview, rules: ProduceRules, now_ms: int) -> HeaderFields:
    """The header of the one batch that a client sent for a partition, or InvalidBatch with Kafka's
    error code."""
    size_bytes = len(buffer)
    if size_bytes < HEADER_BYTES:
        _refuse_short(buffer)
    fields: HeaderFields = HEADER.unpack_from(buffer)
    (
        _,
        length,
        _,
        magic,
        crc,
        attributes,
        last_delta,
        _,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = fields
    # Every produce passes here: one expression for a header with nothing remarkable in it. When
    # there is, the checks say whether it is an error, and which.
    if not (
        magic == MAGIC
        and length == size_bytes - LOG_OVERHEAD_BYTES
        and size_bytes <= rules.max_message_bytes
        and count == last_delta + 1
        and count > 0
        and 0 <= attributes <= _LAST_COMPRESSION
        and (producer_id == NO_PRODUCER_ID or (producer_epoch >= 0 and base_sequence >= 0))
        and max_timestamp - now_ms <= rules.timestamp_after_max_ms
    ):
        header = header_of(fields)
        _check_shape(header, size_bytes, rules)
        _check_header(header)
        _check_timestamps(header, rules, now_ms)
    if crc32.iscsi(buffer[CRC_START:]) != crc:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, "the batch does not match its checksum")
    if rules.needs_records:
        _check_records(buffer, header_of(fields), rules, now_ms)
    return fields


def fit_to_topic(
    buffer: memoryview, fields: HeaderFields, rules: ProduceRules, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    """Give a valid batch the topic's compression and timestamp type. Where the rules are plain
    there is nothing to fit."""
    header = header_of(fields)
    if rules.compression is not None and rules.compression != header.attributes & COMPRESSION_MASK:
        buffer, header = _recompress(buffer, header, rules)
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        header = restamp(buffer, 0, header, timestamp_ms=now_ms)
    return buffer, header


def _check_shape(header: BatchHeader, size_bytes: int, rules: ProduceRules) -> None:
    if header.magic != MAGIC:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"only record batches of magic {MAGIC} are accepted, not {header.magic}",
        )
    if header.batch_length < MIN_BATCH_LENGTH:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE, f"batch length {header.batch_length} is less than a header"
        )
    batch_bytes = LOG_OVERHEAD_BYTES + header.batch_length
    if batch_bytes > size_bytes:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, f"a batch of {batch_bytes} bytes came with {size_bytes} bytes"
        )
    if batch_bytes < size_bytes:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, "a produce request carries exactly one batch per partition"
        )
    if batch_bytes > rules.max_message_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {batch_bytes} bytes, the limit is {rules.max_message_bytes}",
        )


def _refuse_short(buffer: Buffer) -> NoReturn:
    if len(buffer) == 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "no record batch for the partition")
    if len(buffer) > 16 and buffer[16] in (0, 1):
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, f"only record batches of magic {MAGIC} are accepted"
        )
    raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{len(buffer)} bytes are less than a header")


def _check_header(header: BatchHeader) -> None:
    attributes = header.attributes
    if header.records_count <= 0 or header.records_count != header.last_offset_delta + 1:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"{header.records_count} records but a last offset delta of {header.last_offset_delta}",
        )
    if attributes & CONTROL_BIT:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & COMPRESSION_MASK > Compression.ZSTD:
        raise InvalidBatch(
            ErrorCode.CORRUPT_MESSAGE, f"unknown compression {attributes & COMPRESSION_MASK}"
        )
    if header.producer_id != NO_PRODUCER_ID:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidBatch(
                ErrorCode.INVALID_RECORD,
                f"producer {header.producer_id} sent epoch {header.producer_epoch} "
                f"and sequence {header.base_sequence}",
            )
    elif attributes & TRANSACTIONAL_BIT:
        # A sequence without a producer id is harmless: kafkajs sends 0 for "none".
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")


def _check_timestamps(header: BatchHeader, rules: ProduceRules, now_ms: int) -> None:
    if header.attributes & TIMESTAMP_TYPE_BIT:
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "a producer may not claim log-append time")
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return
    if header.max_timestamp - now_ms > rules.timestamp_after_max_ms:
        raise InvalidBatch(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} is too far ahead: "
            f"message.timestamp.after.max.ms is {rules.timestamp_after_max_ms}",
        )


def _check_records(buffer: Buffer, header: BatchHeader, rules: ProduceRules, now_ms: int) -> None:
    records = _decode(buffer, rules)
    errors: list[tuple[int, str]] = []
    bad_time = False
    for index, record in enumerate(records):
        if record.offset - header.base_offset != index:
            raise InvalidBatch(
                ErrorCode.INVALID_RECORD, f"record {index} has offset delta {record.offset}"
            )
        if rules.is_compacted and record.key is None:
            errors.append((index, "a compacted topic takes no record without a key"))
        elif rules.timestamp_type is TimestampType.CREATE_TIME and not _in_time(
            record.timestamp, rules, now_ms
        ):
            bad_time = True
            errors.append((index, f"timestamp {record.timestamp} is out of bounds"))
    if errors:
        code = ErrorCode.INVALID_TIMESTAMP if bad_time else ErrorCode.INVALID_RECORD
        raise InvalidBatch(code, f"{len(errors)} records were refused", errors)


def _in_time(timestamp: int, rules: ProduceRules, now_ms: int) -> bool:
    if timestamp == NO_TIMESTAMP:
        return True
    age_ms = now_ms - timestamp
    return -rules.timestamp_after_max_ms <= age_ms <= rules.timestamp_before_max_ms


def _decode(buffer: Buffer, rules: ProduceRules) -> list[Record]:
    try:
        return decode_records(buffer, 0, rules.decompressed_limit_bytes)
    except CorruptRecord as error:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _recompress(
    buffer: memoryview, header: BatchHeader, rules: ProduceRules
) -> tuple[memoryview, BatchHeader]:
    batch = encode_batch(
        _decode(buffer, rules),
        base_offset=header.base_offset,
        compression=rules.compression or Compression.NONE,
        compression_level=rules.compression_level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        leader_epoch=header.partition_leader_epoch,
    )
    if len(batch) > rules.max_message_bytes:
        raise InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(batch)} bytes in the topic's compression, "
            f"max.message.bytes allows {rules.max_message_bytes}",
        )
    return memoryview(batch), header_of(HEADER.unpack_from(batch))
