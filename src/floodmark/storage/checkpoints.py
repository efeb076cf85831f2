"""The small text files next to the logs, in Kafka's formats.

Offset checkpoints (`recovery-point-offset-checkpoint` and similar), a partition's leader epochs,
`partition.metadata`, `meta.properties` and the clean-shutdown marker. Called by log_manager.py and
leader_epochs.py.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from floodmark.storage.files import Files
from floodmark.vocabulary import TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
OFFSET_FILES: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"

_META_VERSIONS: Final = (0, 1)


class CorruptCheckpoint(Exception):
    """The file does not have the format its name implies."""


def _entries(files: Files, path: Path) -> list[str] | None:
    """The entry lines of a version 0 checkpoint file; None if it is missing or empty."""
    if not files.exists(path):
        return None
    try:
        text = files.read_file(path).decode()
        if not text:
            return None
        if not text.endswith("\n"):
            # A truncated number still looks like a number.
            raise CorruptCheckpoint(f"{path.name} ends in the middle of a line")
        lines = text.splitlines()
        if int(lines[0]) != 0:
            raise CorruptCheckpoint(f"{path.name} has version {lines[0]}, only 0 is supported")
        if len(lines) < 2 or int(lines[1]) != len(lines) - 2:
            raise CorruptCheckpoint(f"{path.name} does not have the number of entries it states")
    except ValueError as error:
        raise CorruptCheckpoint(f"{path.name} is not a checkpoint file") from error
    return lines[2:]


def _encode(count: int, lines: Iterable[str]) -> bytearray:
    """In one buffer: there may be ten thousand lines of 260 characters."""
    data = bytearray(f"0\n{count}\n".encode())
    for line in lines:
        data += f"{line}\n".encode()
    return data


def read_pairs(files: Files, path: Path) -> list[tuple[int, int]] | None:
    """The two numbers of each line; None if the file is missing or empty."""
    lines = _entries(files, path)
    if lines is None:
        return None
    try:
        return [(int(first), int(second)) for first, second in map(str.split, lines)]
    except ValueError as error:
        raise CorruptCheckpoint(f"{path.name} has a malformed line") from error


def write_pairs(
    files: Files, path: Path, pairs: Collection[tuple[int, int]], *, sync: bool = True
) -> None:
    lines = (f"{first} {second}" for first, second in pairs)
    files.write_file_atomic(path, _encode(len(pairs), lines), sync=sync)


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """Offsets by partition; empty if the file is missing."""
    lines = _entries(files, path) or []
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partition, offset in (line.rsplit(" ", 2) for line in lines)
        }
    except ValueError as error:
        raise CorruptCheckpoint(f"{path.name} has a malformed line") from error


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    files.write_file_atomic(path, _encode(len(offsets), lines))


def encode_uuid(value: UUID) -> str:
    """Kafka writes ids as URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error) as error:
        raise CorruptCheckpoint(f"{text!r} is not an id") from error


def read_topic_id(files: Files, directory: Path) -> UUID | None:
    """The topic id in a partition's folder; None if the folder has none yet.

    The file is not synced when written. After a power loss it may be empty, torn or zeros, which
    counts as missing. The id is also in the metadata store.
    """
    path = directory / PARTITION_METADATA
    if not files.exists(path):
        return None
    lines = files.read_file(path).decode(errors="replace").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    try:
        return decode_uuid(fields.get("topic_id", "").strip())
    except CorruptCheckpoint:
        return None


def write_topic_id(files: Files, directory: Path, topic_id: UUID, *, sync: bool = True) -> None:
    text = f"version: 0\ntopic_id: {encode_uuid(topic_id)}"
    files.write_file_atomic(directory / PARTITION_METADATA, text.encode(), sync=sync)


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """The owner of a log folder. Version 0 is Kafka's ZooKeeper format, version 1 KRaft's."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: UUID | None = None


def read_meta_properties(files: Files, log_dir: Path) -> MetaProperties | None:
    path = log_dir / META_PROPERTIES
    if not files.exists(path):
        return None
    fields: dict[str, str] = {}
    for line in files.read_file(path).decode(errors="replace").splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.lstrip().startswith(("#", "!")):
            # Java's Properties escapes these two; nothing else occurs in ids and numbers.
            fields[name.strip()] = value.strip().replace("\\=", "=").replace("\\:", ":")
    try:
        version = int(fields.get("version", "0"))
        node = fields.get("node.id" if version == 1 else "broker.id")
        node_id = None if node is None else int(node)
    except ValueError as error:
        raise CorruptCheckpoint(f"{path.name}: {error}") from error
    if version not in _META_VERSIONS:
        raise CorruptCheckpoint(
            f"{path.name} has version {version}; use the version of the broker that wrote it"
        )
    directory = fields.get("directory.id")
    try:
        directory_id = None if directory is None else decode_uuid(directory)
    except CorruptCheckpoint as error:
        raise CorruptCheckpoint(f"{path.name}: directory.id: {error}") from error
    return MetaProperties(version, fields.get("cluster.id"), node_id, directory_id)


def write_meta_properties(files: Files, log_dir: Path, properties: MetaProperties) -> None:
    lines = [f"version={properties.version}"]
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={properties.cluster_id}")
    if properties.node_id is not None:
        name = "node.id" if properties.version == 1 else "broker.id"
        lines.append(f"{name}={properties.node_id}")
    if properties.directory_id is not None:
        lines.append(f"directory.id={encode_uuid(properties.directory_id)}")
    text = "".join(f"{line}\n" for line in lines)
    files.write_file_atomic(log_dir / META_PROPERTIES, text.encode())


def write_clean_shutdown(files: Files, log_dir: Path, broker_epoch: int) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_file_atomic(log_dir / CLEAN_SHUTDOWN, text.encode())


def take_clean_shutdown(files: Files, log_dir: Path) -> tuple[bool, int]:
    """Whether the last shutdown was clean and its broker epoch (-1 if unknown).

    Removes the marker.
    """
    path = log_dir / CLEAN_SHUTDOWN
    if not files.exists(path):
        return False, -1
    try:
        broker_epoch = int(json.loads(files.read_file(path))["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        # Before Kafka 3.8 the marker was an empty file.
        broker_epoch = -1
    files.remove(path)
    files.fsync_dir(log_dir)
    return True, broker_epoch
