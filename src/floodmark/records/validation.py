"""Validates a client's batch against the topic's rules.

Called by `replication.leading` for every produce. `validate_produce` checks the header and the
checksum, which is enough for most topics. `validate_deeply` also checks records where a rule needs
them (compacted topics, a lower bound on timestamps, the full check), and recompresses the batch
with the topic's codec. That can take long, so it works in steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, NoReturn

from fastcrc import crc32

from floodmark.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MIN_BATCH_LENGTH,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    HeaderFields,
    TimestampType,
    compute_crc,
    header_of,
    restamp,
)
from floodmark.records.compression import Compression, compress, decompress
from floodmark.records.errors import CorruptRecord, DecompressionTooLarge, InvalidBatch
from floodmark.records.limits import READABLE_ITEMS, RECORD_ERRORS
from floodmark.records.scan import LEAST_MS, MOST_MS, Noted, Scanned, scan_records
from floodmark.steps import Steps
from floodmark.vocabulary import NO_PRODUCER_ID, NO_TIMESTAMP
from floodmark.wire.errors import ErrorCode

NO_LIMIT_MS: Final = (1 << 63) - 1
_LAST_COMPRESSION: Final = int(Compression.ZSTD)
_REPACKED_AT_ONCE_BYTES: Final = 4096
"""Compressing less than this is faster than starting a thread."""


@dataclass(slots=True, frozen=True)
class ProduceRules:
    """The topic settings that validation needs. Created whenever the topic's configuration
    changes."""

    max_message_bytes: int = 1048588
    is_compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = 3_600_000
    # None keeps the producer's codec (`compression.type=producer`).
    compression: Compression | None = None
    compression_level: int | None = None
    check_records: bool = False

    # Whether checking the header is enough.
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
    """The header of the one batch that a client sent for a partition. Raises InvalidBatch with
    Kafka's error code. Reads no records."""
    size_bytes = len(buffer)
    if size_bytes < HEADER_BYTES:
        _refuse_short(buffer)
    fields: HeaderFields = HEADER.unpack_from(buffer)
    (
        base_offset,
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
    # On the hot path: a single expression accepts an ordinary header. Otherwise the checks below
    # find out whether there is an error, and which.
    if not (
        magic == MAGIC
        and length == size_bytes - LOG_OVERHEAD_BYTES
        and size_bytes <= rules.max_message_bytes
        and base_offset == 0
        and count == last_delta + 1
        and 0 < count <= READABLE_ITEMS
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
    return fields


class ValidatedBatch(NamedTuple):
    """A batch that is valid under these rules."""

    rules: ProduceRules
    batch: memoryview
    header: BatchHeader

    def stamped(self, now_ms: int) -> tuple[memoryview, BatchHeader]:
        """The batch to append. Log-append time can only be set now."""
        if self.rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return self.batch, restamp(self.batch, 0, self.header, timestamp_ms=now_ms)
        return self.batch, self.header


def validate_deeply(buffer: memoryview, rules: ProduceRules, now_ms: int) -> Steps[ValidatedBatch]:
    """Prepares a batch for its append. Raises InvalidBatch as above."""
    header = header_of(validate_produce(buffer, rules, now_ms))
    codec = rules.compression
    if codec is not None and codec != header.attributes & COMPRESSION_MASK:
        scanned = yield from _check_records(buffer, header, rules, now_ms)
        repack = partial(_repack, buffer, header, rules, codec, scanned)
        at_once = scanned.unpacked_bytes <= _REPACKED_AT_ONCE_BYTES
        repacked: memoryview | InvalidBatch = repack() if at_once else (yield repack)
        if isinstance(repacked, InvalidBatch):
            raise repacked
        buffer = repacked
        header = header_of(HEADER.unpack_from(buffer))
    elif rules.needs_records:
        yield from _check_records(buffer, header, rules, now_ms)
    return ValidatedBatch(rules, buffer, header)


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
    if header.base_offset != 0:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"the base offset of a produced batch is 0, not {header.base_offset}",
        )
    if header.records_count <= 0 or header.records_count != header.last_offset_delta + 1:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"{header.records_count} records but a last offset delta of {header.last_offset_delta}",
        )
    if header.records_count > READABLE_ITEMS:
        # No client could read it, and a few such claims would use up a segment's offsets.
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD, f"{header.records_count} records in {header.size_bytes} bytes"
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


def _check_records(
    buffer: Buffer, header: BatchHeader, rules: ProduceRules, now_ms: int
) -> Steps[Scanned]:
    refusals = _Refusals(rules)
    earliest_ms, latest_ms = _times_allowed(rules, now_ms)
    scan = scan_records(
        buffer,
        header,
        earliest_ms=earliest_ms,
        latest_ms=latest_ms,
        note_gaps=True,
        note_keyless=rules.is_compacted,
    )
    try:
        while True:
            for noted in next(scan):
                refusals.add(noted)
            yield None
    except StopIteration as end:
        scanned: Scanned = end.value
    except DecompressionTooLarge as error:
        # The error that makes Kafka's clients split the batch and retry.
        raise InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except CorruptRecord as error:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    refusals.check()
    return scanned


def _times_allowed(rules: ProduceRules, now_ms: int) -> tuple[int, int]:
    if rules.timestamp_type is not TimestampType.CREATE_TIME:
        return LEAST_MS, MOST_MS
    # A record's timestamp is the sum of two numbers, and may be more than a header can hold.
    latest_ms = min(now_ms + rules.timestamp_after_max_ms, MOST_MS)
    return now_ms - rules.timestamp_before_max_ms, latest_ms


class _Refusals:
    """Counts refused records, and lists the first ones."""

    def __init__(self, rules: ProduceRules) -> None:
        self._is_compacted = rules.is_compacted
        self._count = 0
        self._named: list[tuple[int, str]] = []
        self._error_code = ErrorCode.INVALID_RECORD

    def add(self, noted: Noted) -> None:
        if noted.offset_delta != noted.number:
            text = f"record {noted.number} has offset delta {noted.offset_delta}"
            raise InvalidBatch(ErrorCode.INVALID_RECORD, text)
        if self._is_compacted and not noted.has_key:
            text = "a compacted topic takes no record without a key"
        elif noted.timestamp == NO_TIMESTAMP:
            return
        else:
            self._error_code = ErrorCode.INVALID_TIMESTAMP
            text = f"timestamp {noted.timestamp} is out of bounds"
        self._count += 1
        if len(self._named) < RECORD_ERRORS:
            self._named.append((noted.number, text))

    def check(self) -> None:
        if self._count:
            text = f"{self._count} records were refused"
            raise InvalidBatch(self._error_code, text, self._named)


def _repack(
    buffer: memoryview,
    header: BatchHeader,
    rules: ProduceRules,
    codec: Compression,
    scanned: Scanned,
) -> memoryview | InvalidBatch:
    """Recompresses the batch. Runs in a thread, mostly without the interpreter lock."""
    packed = buffer[HEADER_BYTES:]
    if codec is not Compression.NONE:
        unpacked = decompress(header.compression, packed, scanned.unpacked_bytes)
        packed = memoryview(compress(codec, unpacked, rules.compression_level))
        batch_bytes = HEADER_BYTES + len(packed)
    else:
        batch_bytes = HEADER_BYTES + scanned.unpacked_bytes
    if batch_bytes > rules.max_message_bytes:
        return InvalidBatch(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {batch_bytes} bytes in the topic's compression, "
            f"max.message.bytes allows {rules.max_message_bytes}",
        )
    if codec is Compression.NONE:
        packed = memoryview(decompress(header.compression, packed, scanned.unpacked_bytes))
    batch = bytearray(batch_bytes)
    repacked = header._replace(
        batch_length=batch_bytes - LOG_OVERHEAD_BYTES,
        attributes=int(codec) | header.attributes & TRANSACTIONAL_BIT,
        max_timestamp=scanned.largest_timestamp,
    )
    HEADER.pack_into(batch, 0, *repacked)
    batch[HEADER_BYTES:] = packed
    crc = compute_crc(batch, 0, batch_bytes)
    batch[CRC_POSITION:CRC_START] = crc.to_bytes(4, "big")
    return memoryview(batch)
