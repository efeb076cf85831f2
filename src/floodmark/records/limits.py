"""How much a batch may unpack to, and how much of it is looked at in one go.

A batch of 4 KB can unpack to gigabytes, or to millions of records. Used wherever the broker looks
into a batch. Batches that are stored as they came are not unpacked, so no limit applies to them.
"""

from __future__ import annotations

from typing import Final

STEP_BYTES: Final = 16 * 1024
"""Unpacked bytes between two places where long work lets others run. They hold up to 2,300 records,
which take about a millisecond."""

UNPACKED_BYTES: Final = 8 * 1024 * 1024
"""What any batch may unpack to: it is there up to four times while it is compressed anew. A record
has at most 1 MiB by the default `max.request.size`, and batches of `batch.size` are far smaller."""

UNPACKED_RATIO: Final = 64
"""Larger batches may unpack to this many times their size. JSON compresses by 5 to 20."""

ITEMS: Final = 250_000
"""How many records and record headers any batch may hold. The smallest record has 7 bytes, so the
default `max.message.bytes` has room for 150,000 without compression."""

HEADERS_OF_A_RECORD: Final = 50_000
"""A record is checked in one go, and this many headers take some 15 milliseconds."""

RECORD_ERRORS: Final = 100
"""How many refused records an answer names. Kafka names all, which may be megabytes."""

READABLE_BYTES: Final = 256 * 1024 * 1024
"""What readers unpack at most. They go through it step by step, so this bounds time, not memory."""

READABLE_ITEMS: Final = READABLE_BYTES // 7
"""Records and record headers that readers take from one batch: what has room in that."""


def most_unpacked_bytes(packed_bytes: int) -> int:
    return max(UNPACKED_BYTES, UNPACKED_RATIO * packed_bytes)


def most_items(packed_bytes: int) -> int:
    """An item takes at least two bytes: without compression no batch has too many."""
    return max(ITEMS, packed_bytes)
