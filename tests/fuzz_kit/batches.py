"""Record batches for fuzzed produce requests: most are good, the rest broken in known ways."""

from __future__ import annotations

from random import Random

from floodmark.records.compression import Compression
from floodmark.records.record import Record, encode_batch

HEADER_BYTES = 61
NOW_MS = 1_700_000_000_000


def random_batch(random: Random) -> bytes:
    batch = _good_batch(random)
    how = random.random()
    if how < 0.6:
        return batch
    if how < 0.7:
        return batch[: random.randrange(len(batch))]
    if how < 0.8:
        return batch + _good_batch(random)
    if how < 0.9:
        return flip(random, batch, random.randrange(min(len(batch), HEADER_BYTES)))
    return flip(random, batch, random.randrange(len(batch)))


def flip(random: Random, data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << random.randrange(8)
    return bytes(changed)


def _good_batch(random: Random) -> bytes:
    records = [
        Record(offset, NOW_MS + offset, b"key", random.randbytes(random.choice((0, 10, 100))), [])
        for offset in range(random.choice((1, 1, 2, 10)))
    ]
    is_idempotent = random.random() < 0.3
    return bytes(
        encode_batch(
            records,
            compression=random.choice(list(Compression)),
            producer_id=random.randrange(5) if is_idempotent else -1,
            producer_epoch=random.randrange(3) if is_idempotent else -1,
            base_sequence=random.randrange(20) if is_idempotent else -1,
            is_transactional=random.random() < 0.05,
        )
    )
