"""Record headers as a Spark column: a list of (key, value), or null for none.

Called by `columns.py` when a query asks for headers; records without any cost next to nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floodmark.records.errors import CorruptRecord

Ints = npt.NDArray[np.int64]

_MAX_VARINT_BYTES: Final = 10


def header_column(data: bytes, starts: Ints, ends: Ints, column_type: pa.DataType) -> pa.Array:
    """One entry per record, read from the start of its headers to the end of the record."""
    firsts = np.frombuffer(data, np.uint8)[starts]
    if not firsts.any():
        return pa.nulls(len(starts), column_type)
    rows: list[list[tuple[str, bytes | None]] | None] = [None] * len(starts)
    try:
        for row in np.flatnonzero(firsts):
            rows[row] = _headers(data, int(starts[row]), int(ends[row]))
    except IndexError:
        raise CorruptRecord("broken headers in a record") from None
    return pa.array(rows, column_type)


def _headers(data: bytes, p: int, end: int) -> list[tuple[str, bytes | None]]:
    """Invalid lengths must not lead backwards or beyond the record."""
    count, p = _varint(data, p)
    if count < 0:
        raise CorruptRecord("negative number of record headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, p = _varint(data, p)
        if size < 0:
            raise CorruptRecord("a record header has no name")
        # Like Java: a name that is not text must not stop a query.
        name = data[p : p + size].decode(errors="replace")
        p += size
        size, p = _varint(data, p)
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[p : p + size]))
            p += size
    if p != end:
        raise CorruptRecord(f"the headers of a record should end at {end} but end at {p}")
    return headers


def _varint(data: bytes, p: int) -> tuple[int, int]:
    n = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        byte = data[p]
        p += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (n >> 1) ^ -(n & 1), p
    raise CorruptRecord("a varint is longer than ten bytes")
