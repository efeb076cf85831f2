"""Names of partition folders: `{topic}-{partition}`, with a suffix while they are moved or deleted.

Called by partition_log.py and log_manager.py.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from uuid import uuid4

from floodmark.vocabulary import TopicPartition

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
_MAX_NAME_BYTES: Final = 255


def parse_directory_name(name: str) -> TopicPartition:
    """Topic and partition of a folder `{topic}-{partition}`. Raises ValueError for other names."""
    topic, _, partition = name.rpartition("-")
    # Not `t-00`, which would be a second folder of the same partition.
    if not topic or not partition.isdecimal() or str(int(partition)) != partition:
        raise ValueError(f"{name!r} is not a partition folder")
    return topic, int(partition)


_FUTURE: Final = re.compile(r"(?P<name>.+)\.(?P<move>[0-9a-f]{32})" + FUTURE_SUFFIX)
_DELETED: Final = re.compile(r".+\.(?P<move>[0-9a-f]{32})" + DELETE_SUFFIX)


class FutureName(NamedTuple):
    """The parsed name of a move's target folder: its final name and the id of the move."""

    name: str
    move: str


def name_future(name: str) -> str | None:
    """The target folder of a move. As in Kafka, None if the topic's name leaves no room."""
    future = f"{name}.{uuid4().hex}{FUTURE_SUFFIX}"
    return future if len(future) <= _MAX_NAME_BYTES else None


def parse_future_name(name: str) -> FutureName | None:
    match = _FUTURE.fullmatch(name)
    return None if match is None else FutureName(match["name"], match["move"])


def name_moved(future: FutureName) -> str:
    """The old folder's name after a move, to be removed.

    The shared id tells a start that the move had come this far.
    """
    return f"{future.name}.{future.move}{DELETE_SUFFIX}"


def finished_move(name: str) -> str | None:
    """The id of the move that left this folder behind, if any."""
    match = _DELETED.fullmatch(name)
    return None if match is None else match["move"]


def partition_name(name: str) -> str:
    """`{topic}-{partition}` of a folder that may be the target of a move."""
    future = parse_future_name(name)
    return name if future is None else future.name


def name_aside(name: str, suffix: str) -> str:
    """A unique folder name that ends in DELETE_SUFFIX or STRAY_SUFFIX.

    A topic's name may have 249 characters, and file systems allow 255. As in Kafka, the topic is
    cut.
    """
    topic, partition = parse_directory_name(name)
    tail = f"-{partition}.{uuid4().hex}{suffix}"
    return topic[: _MAX_NAME_BYTES - len(tail)] + tail
