"""Decodes each kind of file in a partition folder into plain data.

Called by `log.py`. Every reader yields entries until the first unreadable one, where it raises.
`dump_file` returns that error as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from floodmark.cli.output import Document
from floodmark.cli.record_json import shown_name, to_json
from floodmark.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    check_shape,
    crc_ok,
    read_header,
)
from floodmark.records.errors import CorruptRecord, UnsupportedMagic
from floodmark.records.record import decode_records
from floodmark.storage.checkpoints import CorruptCheckpoint, read_offsets, read_pairs
from floodmark.storage.files import RealFiles
from floodmark.storage.producers.producer_snapshot import CorruptSnapshot, decode_snapshot

DUMPED_NAMES = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "checkpoint",
    "partition.metadata",
)

Entry = Document
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")


class Broken(Exception):
    """The rest of the file is unreadable."""


def dump_file(path: Path, *, deep: bool, check_crc: bool) -> Document:
    kind, reader = _reader(path, deep=deep, check_crc=check_crc)
    entries: list[Entry] = []
    error: str | None = None
    try:
        for entry in reader(path):
            entries.append(entry)
    except (Broken, CorruptRecord, UnsupportedMagic, CorruptSnapshot, CorruptCheckpoint) as reason:
        error = str(reason)
    return {
        "file": str(path),
        "kind": kind,
        "size_bytes": path.stat().st_size,
        "entries": entries,
        "error": error,
    }


def _reader(
    path: Path, *, deep: bool, check_crc: bool
) -> tuple[str, Callable[[Path], Iterator[Entry]]]:
    name = path.name
    if name.endswith(".log"):
        return "segment", lambda path: _batches(path, deep=deep, check_crc=check_crc)
    if name.endswith(".timeindex"):
        return "time index", _time_index
    if name.endswith(".txnindex"):
        return "transaction index", _transaction_index
    if name.endswith(".index"):
        return "offset index", _offset_index
    if name.endswith(".snapshot"):
        return "producer snapshot", _snapshot
    if name == "leader-epoch-checkpoint":
        return "leader epochs", _leader_epochs
    if name.endswith("offset-checkpoint"):
        return "offset checkpoint", _offset_checkpoint
    return "text", _text


def _batches(path: Path, *, deep: bool, check_crc: bool) -> Iterator[Entry]:
    with path.open("rb") as file:
        position = 0
        while True:
            head = file.read(HEADER_BYTES)
            if not head:
                return
            batch = _whole_batch(file, head, position)
            header = read_header(batch)
            if check_crc and not crc_ok(batch, 0, header):
                raise Broken(
                    f"the batch at position {position} (offset {header.base_offset}) has a wrong "
                    "checksum"
                )
            entry = _batch_entry(header, position)
            if deep:
                entry["records"] = _records(batch)
            yield entry
            position += header.size_bytes


def _whole_batch(file: BinaryIO, head: bytes, position: int) -> bytes:
    if len(head) < HEADER_BYTES:
        raise Broken(f"{len(head)} bytes at position {position} are too few for a batch header")
    header = read_header(head)
    check_shape(header)
    rest = header.batch_length + LOG_OVERHEAD_BYTES - HEADER_BYTES
    batch = head + file.read(rest)
    if len(batch) < header.size_bytes:
        raise Broken(
            f"the batch at position {position} has {header.size_bytes} bytes, "
            f"the file ends after {len(batch)}"
        )
    return batch


def _batch_entry(header: BatchHeader, position: int) -> Entry:
    flags = [
        name
        for name, is_set in (
            ("transactional", header.is_transactional),
            ("control", header.is_control),
            ("append-time", header.timestamp_type.value == 1),
            ("delete-horizon", header.has_delete_horizon),
        )
        if is_set
    ]
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.records_count,
        "position": position,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.partition_leader_epoch,
        "compression": header.compression.config_name,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "crc": header.crc,
        "flags": flags,
    }


def _records(batch: bytes) -> list[Entry]:
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": to_json(record.key),
            "value": to_json(record.value),
            "headers": [[shown_name(name), to_json(value)] for name, value in record.headers],
        }
        for record in decode_records(batch)
    ]


def _base_offset(path: Path) -> int:
    stem = path.name.partition(".")[0]
    if not stem.isdigit():
        raise Broken("the file is not named after its base offset")
    return int(stem)


def _fixed(path: Path, layout: Struct) -> Iterator[tuple[int, ...]]:
    """Fixed-size entries. A running broker preallocates zero-filled space at the end."""
    data = path.read_bytes()
    for at in range(0, len(data) - layout.size + 1, layout.size):
        fields = layout.unpack_from(data, at)
        if at and not any(fields):
            return
        yield fields
    if len(data) % layout.size:
        raise Broken(f"{len(data) % layout.size} bytes at the end are too few for an entry")


def _rising(path: Path, layout: Struct, key: int) -> Iterator[tuple[int, ...]]:
    last: int | None = None
    for fields in _fixed(path, layout):
        if last is not None and fields[key] < last:
            raise Broken(f"entry {fields} follows a larger one")
        last = fields[key]
        yield fields


def _offset_index(path: Path) -> Iterator[Entry]:
    base_offset = _base_offset(path)
    for relative, position in _rising(path, _OFFSET_ENTRY, 0):
        yield {"offset": base_offset + relative, "position": position}


def _time_index(path: Path) -> Iterator[Entry]:
    base_offset = _base_offset(path)
    for timestamp, relative in _rising(path, _TIME_ENTRY, 0):
        yield {"timestamp": timestamp, "offset": base_offset + relative}


def _transaction_index(path: Path) -> Iterator[Entry]:
    names = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
    for fields in _fixed(path, _TRANSACTION_ENTRY):
        yield dict(zip(names, fields, strict=True))


def _snapshot(path: Path) -> Iterator[Entry]:
    for entry in decode_snapshot(path.read_bytes()):
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }


def _leader_epochs(path: Path) -> Iterator[Entry]:
    for leader_epoch, start_offset in read_pairs(RealFiles(), path) or ():
        yield {"leader_epoch": leader_epoch, "start_offset": start_offset}


def _offset_checkpoint(path: Path) -> Iterator[Entry]:
    for (topic, partition), offset in read_offsets(RealFiles(), path).items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _text(path: Path) -> Iterator[Entry]:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        yield {"line": line}
