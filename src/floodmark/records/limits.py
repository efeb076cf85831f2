"""Limits on decompressing a batch, and on how much of it is processed at a time.

A batch of 4 KB can decompress to gigabytes, or to millions of records. The limits apply wherever
the broker reads records. Batches stored unchanged are not decompressed, so none applies to them.
"""

from __future__ import annotations

from typing import Final

STEP_BYTES: Final = 16 * 1024
"""Decompressed bytes between two pauses of long work. They hold up to 2,300 records, which take
about a millisecond."""

UNPACKED_BYTES: Final = 8 * 1024 * 1024
"""The decompressed size that every batch may have. Recompressing holds up to four copies. A record
has at most 1 MiB with the default `max.request.size`, and most batches are far smaller."""

UNPACKED_RATIO: Final = 64
"""Larger batches may decompress to this many times their size. JSON compresses by 5 to 20."""

ITEMS: Final = 250_000
"""The records and record headers that every batch may have. The smallest record has 7 bytes, so the
default `max.message.bytes` has room for 150,000 without compression."""

HEADERS_OF_A_RECORD: Final = 50_000
"""A record is checked without a pause, and this many headers take some 15 milliseconds."""

RECORD_ERRORS: Final = 100
"""The refused records that a response lists. Kafka lists all, which may be megabytes."""

READABLE_BYTES: Final = 256 * 1024 * 1024
"""The most that readers decompress. They work in steps, so this limits time, not memory."""

READABLE_ITEMS: Final = READABLE_BYTES // 7
"""Records and record headers that readers take from one batch: as many as fit into that."""


def most_unpacked_bytes(packed_bytes: int) -> int:
    return max(UNPACKED_BYTES, UNPACKED_RATIO * packed_bytes)


def most_items(packed_bytes: int) -> int:
    """An item has at least two bytes, so a batch without compression never has too many."""
    return max(ITEMS, packed_bytes)
