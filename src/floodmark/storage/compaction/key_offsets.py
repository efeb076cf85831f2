"""The last offset of every key in the part of a log being compacted.

Memory is bounded by `log.cleaner.dedupe.buffer.size`: when it is full, this round of compaction
ends there and the next one continues. Used by compaction.py, in the cleaner process.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from floodmark.records.record import Record

# Keys up to this length are stored as they are. Longer ones are hashed to one byte more, so that no
# key can collide with another's hash.
LONGEST_PLAIN_KEY_BYTES: Final = 32
_HASH_MARK: Final = b"\0"

# CPython's memory for a dictionary entry from bytes to int, besides the key's own bytes: the two
# objects and, at its worst load, the table.
ENTRY_BYTES: Final = 180


class KeyOffsets:
    def __init__(self, limit_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._limit_bytes = limit_bytes
        self._used_bytes = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return self._used_bytes >= self._limit_bytes

    def add(self, records: Sequence[Record], first_offset: int) -> None:
        """Records offsets at and after first_offset. Skips records without a key."""
        offsets = self._offsets
        before = len(offsets)
        key_bytes = 0
        for offset, _, key, _, _ in records:
            if key is None or offset < first_offset:
                continue
            if len(key) > LONGEST_PLAIN_KEY_BYTES:
                key = _hashed(key)  # noqa: PLW2901 - this is the key from here on
            key_bytes += len(key)
            offsets[key] = offset
        added = len(offsets) - before
        if added:
            self._used_bytes += added * (ENTRY_BYTES + key_bytes // len(records))

    def latest(self, key: bytes) -> int:
        """The last offset of this key, or -1 if it was not seen."""
        if len(key) > LONGEST_PLAIN_KEY_BYTES:
            key = _hashed(key)
        return self._offsets.get(key, -1)


def _hashed(key: bytes) -> bytes:
    return _HASH_MARK + sha256(key).digest()
