"""Computes the partition of each row, for a whole column at once. PURE.

Called by `writing.py`. Hashes keys like Java's producer, so that rows share partitions with other
producers' records of the same key.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)


def partitions_of_keys(keys: pa.Array, partition_count: int) -> Ints:
    """The partition of each key. Values for null keys are meaningless."""
    hashes = murmur2(keys)
    return (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partition_count


def spread(count: int, partition_count: int, first: int) -> Ints:
    """For rows without a key: equal runs, one partition after another starting at `first`."""
    runs = np.arange(count, dtype=np.int64) * partition_count // max(count, 1)
    return (runs + first) % partition_count


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Java's 32-bit murmur2 of every key, word by word over all keys that are long enough."""
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets).astype(np.int64)
    # Padding lets the last word of the last key be read like any other.
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.empty(0, np.uint8)
    data = np.concatenate([data[: int(offsets[-1])], np.zeros(4, np.uint8)])
    hashes = _SEED ^ lengths.astype(np.uint32)
    for word in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (word + 1))
        k = _words(data, starts[rows] + 4 * word) * _M
        hashes[rows] = hashes[rows] * _M ^ (k ^ k >> np.uint32(24)) * _M
    tails = lengths & 3
    rows = np.flatnonzero(tails)
    last = _words(data, starts[rows] + (lengths[rows] & ~3))
    masks = ((np.int64(1) << 8 * tails[rows]) - 1).astype(np.uint32)
    hashes[rows] = (hashes[rows] ^ last & masks) * _M
    hashes = (hashes ^ hashes >> np.uint32(13)) * _M
    return hashes ^ hashes >> np.uint32(15)


def _words(data: npt.NDArray[np.uint8], at: Ints) -> npt.NDArray[np.uint32]:
    words = data[at].astype(np.uint32)
    for index in (1, 2, 3):
        words |= data[at + index].astype(np.uint32) << np.uint32(8 * index)
    return words
