"""Record headers as a Spark column: a list of (key, value), or null for none.

Called by `columns.py` when a query asks for headers; records without any cost next to nothing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floodmark.records.errors import CorruptRecord
from floodmark.records.record import Header, decode_headers

Ints = npt.NDArray[np.int64]


def header_column(data: bytes, starts: Ints, ends: Ints, column_type: pa.DataType) -> pa.Array:
    """One entry per record, read from the start of its headers to the end of the record."""
    firsts = np.frombuffer(data, np.uint8)[starts]
    if not firsts.any():
        return pa.nulls(len(starts), column_type)
    rows: list[list[Header] | None] = [None] * len(starts)
    try:
        for row in np.flatnonzero(firsts):
            rows[row] = _headers(data, int(starts[row]), int(ends[row]))
    except IndexError:
        raise CorruptRecord("broken headers in a record") from None
    return pa.array(rows, column_type)


def _headers(data: bytes, start: int, end: int) -> list[Header]:
    """Invalid lengths must not lead backwards or beyond the record."""
    headers: list[Header] = []
    # Like Java: a name that is not UTF-8 must not stop a query. Every header takes a byte or more.
    p = decode_headers(data, start + 1, data[start], headers, end - start, errors="replace")
    if p != end:
        raise CorruptRecord(f"the headers of a record should end at {end} but end at {p}")
    return headers
