"""Records of `__consumer_offsets` as objects, and their encoding in Kafka's formats. PURE.

`OffsetRecord` has its own codec, because offset commits are performance-critical. Everything else
is a `MessageRecord` around the definitions in `wire.internal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from floodmark.wire.internal.classic_groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from floodmark.wire.internal.consumer_offsets import KEY_CLASSES, VALUE_CLASSES, RecordType
from floodmark.wire.internal.framing import (
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
    read_prefix,
)
from floodmark.wire.schema import ZERO_UUID, UnsupportedVersion

VALUE_VERSIONS: Mapping[int, int] = MappingProxyType({RecordType.GROUP_METADATA: 3})
"""The versions we write. Records of consumer groups only have version 0."""

_INT16 = Struct(">h")
_PARTITION = Struct(">i")
_VALUE_HEAD = Struct(">hqiB")  # version, offset, leader epoch, compact length of the metadata
_TIMESTAMP = Struct(">q")
_OFFSET_VALUE_VERSION = 4
_OFFSET_KEY_TYPE = _INT16.pack(RecordType.OFFSET_COMMIT)
_NO_TAGS = b"\x00"
# One tagged field: tag 0, 16 bytes.
_TOPIC_ID_TAG = b"\x01\x00\x10"
_ONE_BYTE_LENGTH = 0x7F


class CommittedOffset(NamedTuple):
    """A group's offset in a partition. `record_offset` is its position in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    topic_id: UUID
    record_offset: int = -1

    def at(self, record_offset: int) -> CommittedOffset:
        """The same, once its position in the log is known."""
        return CommittedOffset(*self[:-1], record_offset)


class OffsetRecord(NamedTuple):
    """A commit, or its removal if it has no value."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


class MessageRecord(NamedTuple):
    """Any other record, as defined in `wire.internal`. Without a value it is a tombstone."""

    record_type: int
    key: Any
    value: Any


GroupRecord: TypeAlias = OffsetRecord | MessageRecord


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    if isinstance(record, OffsetRecord):
        value = record.value
        return _encode_offset_key(record), None if value is None else _encode_offset_value(value)
    key = encode_key(record.key, record.record_type)
    if record.value is None:
        return key, None
    version = VALUE_VERSIONS.get(record.record_type, 0)
    return key, encode_versioned(record.value, version)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """None for types and value versions that only newer brokers know."""
    decoded_key = decode_key(KEY_CLASSES, key)
    if decoded_key is None:
        return None
    record_type = read_prefix(key)
    try:
        decoded = None if value is None else decode_versioned(VALUE_CLASSES[record_type], value)
    except UnsupportedVersion:
        return None
    if isinstance(decoded_key, OffsetCommitKey | LegacyOffsetCommitKey):
        return OffsetRecord(
            decoded_key.group,
            decoded_key.topic,
            decoded_key.partition,
            None if decoded is None else _committed(decoded),
        )
    return MessageRecord(record_type, decoded_key, decoded)


def group_metadata(group_id: str, value: GroupMetadataValue | None) -> MessageRecord:
    return MessageRecord(RecordType.GROUP_METADATA, GroupMetadataKey(group=group_id), value)


def _committed(value: Any) -> CommittedOffset:
    if not isinstance(value, OffsetCommitValue):
        return CommittedOffset(
            value.offset, -1, value.metadata, value.commit_timestamp, None, ZERO_UUID
        )
    expire = value.expire_timestamp
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if expire == -1 else expire,
        value.topic_id,
    )


def _encode_offset_key(record: OffsetRecord) -> bytes:
    group = record.group_id.encode()
    topic = record.topic.encode()
    return b"".join(
        (
            _OFFSET_KEY_TYPE,
            _INT16.pack(len(group)),
            group,
            _INT16.pack(len(topic)),
            topic,
            _PARTITION.pack(record.partition),
        )
    )


def _encode_offset_value(value: CommittedOffset) -> bytes:
    metadata = value.metadata.encode()
    number = value.topic_id.int
    if value.expire_timestamp_ms is not None or len(metadata) >= _ONE_BYTE_LENGTH:
        return _encode_unusual_offset_value(value)
    return b"".join(
        (
            _VALUE_HEAD.pack(
                _OFFSET_VALUE_VERSION, value.offset, value.leader_epoch, len(metadata) + 1
            ),
            metadata,
            _TIMESTAMP.pack(value.commit_timestamp_ms),
            _TOPIC_ID_TAG + number.to_bytes(16, "big") if number else _NO_TAGS,
        )
    )


def _encode_unusual_offset_value(value: CommittedOffset) -> bytes:
    """Only version 1 has its own expiry; version 4 has everything else."""
    message = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
        expire_timestamp=-1 if value.expire_timestamp_ms is None else value.expire_timestamp_ms,
        topic_id=value.topic_id,
    )
    version = _OFFSET_VALUE_VERSION if value.expire_timestamp_ms is None else 1
    return encode_versioned(message, version)
