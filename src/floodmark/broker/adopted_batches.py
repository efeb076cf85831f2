"""Reads the batches in a folder being adopted, before log recovery has checked it.

Called by adopted_producers.py, and by adopted_epochs.py if the leader epoch file is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from floodmark.records.batch import HEADER_BYTES, BatchHeader, crc_ok, iter_headers, read_header
from floodmark.records.errors import CorruptRecord
from floodmark.storage.files import Files

_CHUNK_BYTES: Final = 1 << 20


def sound_batches(files: Files, path: Path) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yields batches with valid checksums, and their bytes.

    Stops at the first invalid length, because nothing says where the next batch begins.
    """
    file = files.open(path)
    try:
        position, size_bytes, wanted_bytes = 0, file.size(), _CHUNK_BYTES
        while size_bytes - position >= HEADER_BYTES:
            chunk = memoryview(file.pread(wanted_bytes, position))
            taken_bytes = 0
            for at, header in iter_headers(chunk):
                taken_bytes = at + header.size_bytes
                if crc_ok(chunk, at, header):
                    yield header, chunk[at:taken_bytes]
            position += taken_bytes
            # Read a batch larger than the chunk on its own.
            wanted_bytes = _CHUNK_BYTES if taken_bytes else read_header(chunk).size_bytes
            if not taken_bytes and wanted_bytes > size_bytes - position:
                return
    except CorruptRecord:
        return
    finally:
        file.close()
