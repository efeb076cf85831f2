"""Control batches: the markers that end a transaction.

Written by the transaction coordinator's partitions, read by producer state, compaction and clients.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from floodmark.records.batch import Buffer
from floodmark.records.errors import CorruptRecord
from floodmark.records.record import Record, encode_batch, iter_records
from floodmark.vocabulary import NO_SEQUENCE

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """The control records of data partitions. Other types belong to KRaft."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    control_type: ControlType
    coordinator_epoch: int


def encode_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch with one record that ends a producer's transaction in a partition."""
    record = Record(
        base_offset,
        timestamp_ms,
        _KEY.pack(_VERSION, marker.control_type),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
        [],
    )
    return encode_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )


def decode_control_type(key: bytes | None) -> ControlType | None:
    """The type of a control record, from its key. None for types that are not ours."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecord("a control record needs a key of version and type")
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecord(f"control record version {version}")
    try:
        return ControlType(type_id)
    except ValueError:
        return None


def decode_marker(buffer: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """The marker in a control batch. None if compaction has emptied it, or for other types."""
    record = next(iter_records(buffer, position), None)
    if record is None:
        return None
    control_type = decode_control_type(record.key)
    if control_type is None:
        return None
    value = record.value
    if value is None or len(value) < _VALUE.size:
        raise CorruptRecord("an end-transaction marker needs a version and a coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecord(f"end-transaction marker version {version}")
    return EndTransactionMarker(control_type, coordinator_epoch)
