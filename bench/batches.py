"""Record batches of magic 2, written by hand: a load must not depend on what it measures."""

import random
import struct
import time
from collections.abc import Sequence
from typing import Final

import lz4.frame
from fastcrc import crc32

RECORD_BYTES: Final = 124
RECORDS_PER_BATCH: Final = 100

_PREFIX = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
_BODY = struct.Struct(">hiqqqhii")  # attributes .. record count: what the crc covers first
BATCH_HEADER_BYTES: Final = _PREFIX.size + _BODY.size
_CRC_AT = 17
_COVERED_FROM = 21
_PRODUCER_AT = 43
_SEQUENCE_AT = 53

NO_PRODUCER: Final = (-1, -1)
LZ4: Final = 3
TRANSACTIONAL: Final = 16


def make_batch(
    count: int = RECORDS_PER_BATCH,
    codec: int = 0,
    producer: tuple[int, int] = NO_PRODUCER,
) -> bytearray:
    """`count` records of 124 bytes each (their encoded size), text-like so that lz4 has work."""
    chooser = random.Random(7)
    records = b"".join(_record(delta, chooser) for delta in range(count))
    if codec == LZ4:
        records = lz4.frame.compress(records, block_linked=False)
    return _batch(codec, count, records, producer)


def make_transactional_batch() -> bytearray:
    """One record of 124 bytes; `patch_producer` says whose."""
    return _batch(TRANSACTIONAL, 1, _record(0, random.Random(7)), (0, 0))


def make_keyed_batch(keys: Sequence[bytes]) -> bytearray:
    """A record of 124 bytes for each key; the keys have the same length, under 64 bytes."""
    chooser = random.Random(7)
    records = b"".join(_record(delta, chooser, key) for delta, key in enumerate(keys))
    return _batch(0, len(keys), records, NO_PRODUCER)


def _batch(attributes: int, count: int, records: bytes, producer: tuple[int, int]) -> bytearray:
    timestamp_ms = int(time.time() * 1000)  # an old one would fall to retention in mid-run
    producer_id, producer_epoch = producer
    sequence = 0 if producer_id >= 0 else -1
    body = _BODY.pack(
        attributes,
        count - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        sequence,
        count,
    )
    covered = body + records
    length = _PREFIX.size - 12 + len(covered)
    return bytearray(_PREFIX.pack(0, length, -1, 2, crc32.iscsi(covered)) + covered)


def patch_sequence(batch: memoryview, sequence: int) -> None:
    """Give a ready batch its base sequence, and update its checksum."""
    struct.pack_into(">i", batch, _SEQUENCE_AT, sequence)
    struct.pack_into(">I", batch, _CRC_AT, crc32.iscsi(batch[_COVERED_FROM:]))


def patch_producer(batch: memoryview, producer_id: int, producer_epoch: int) -> None:
    """Make a ready batch the first of this producer and epoch."""
    struct.pack_into(">qhi", batch, _PRODUCER_AT, producer_id, producer_epoch, 0)
    struct.pack_into(">I", batch, _CRC_AT, crc32.iscsi(batch[_COVERED_FROM:]))


def offsets_in(records: memoryview) -> tuple[int, int]:
    """First and end offset (exclusive) of the whole batches in a fetched slice; -1 if none."""
    position, first, end = 0, -1, -1
    size = len(records)
    while position + BATCH_HEADER_BYTES <= size:
        base_offset, length = struct.unpack_from(">qi", records, position)
        if position + 12 + length > size:
            break
        (last_delta,) = struct.unpack_from(">i", records, position + 23)
        first = base_offset if first < 0 else first
        end = base_offset + last_delta + 1
        position += 12 + length
    return first, end


def _record(delta: int, chooser: random.Random, key: bytes | None = None) -> bytes:
    words = ["level", "station", "river", "gauge", "metre", "rising", "falling", "warning", "clear"]
    text = f'{{"id":{chooser.randrange(10**9)},"note":"'
    while len(text) < RECORD_BYTES:
        text += chooser.choice(words) + " "
    # length, attributes, timestamp delta, offset delta, key length, value length, headers: with
    # deltas under 64 a value of 115 bytes makes 124, above that 114 (the delta takes two bytes).
    key_field = b"\x01" if key is None else _zigzag(len(key)) + key
    value = text.encode()[: (116 if delta < 64 else 115) - len(key_field)]
    fields = b"\x00\x00" + _zigzag(delta) + key_field + _zigzag(len(value)) + value + b"\x00"
    return _zigzag(len(fields)) + fields


def _zigzag(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append((left & 0x7F) | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
