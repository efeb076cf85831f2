"""Names of the folders of partitions: `{topic}-{partition}`, and with what behind it when they go
or come.

Called by partition_log.py and log_manager.py.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from uuid import uuid4

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
_MAX_NAME_BYTES: Final = 255


def parse_directory_name(name: str) -> tuple[str, int]:
    """Topic and partition of a folder `{topic}-{partition}`; ValueError for other names."""
    topic, _, partition = name.rpartition("-")
    # Not `t-00`: that would be a second folder of one partition.
    if not topic or not partition.isdecimal() or str(int(partition)) != partition:
        raise ValueError(f"{name!r} is not the folder of a partition")
    return topic, int(partition)


_FUTURE: Final = re.compile(r"(?P<name>.+)\.(?P<move>[0-9a-f]{32})" + FUTURE_SUFFIX)
_DELETED: Final = re.compile(r".+\.(?P<move>[0-9a-f]{32})" + DELETE_SUFFIX)


class FutureName(NamedTuple):
    """What the name of a folder says into which a partition moves: the name it will have, and
    which move it belongs to."""

    name: str
    move: str


def name_future(name: str) -> str | None:
    """The folder into which a partition moves; None when its topic's name leaves no room, as with
    Kafka."""
    future = f"{name}.{uuid4().hex}{FUTURE_SUFFIX}"
    return future if len(future) <= _MAX_NAME_BYTES else None


def parse_future_name(name: str) -> FutureName | None:
    match = _FUTURE.fullmatch(name)
    return None if match is None else FutureName(match["name"], match["move"])


def name_moved(future: FutureName) -> str:
    """What the folder of before is called once a move is done: to be removed. That both have the
    same id tells a start that the move had come to this point."""
    return f"{future.name}.{future.move}{DELETE_SUFFIX}"


def finished_move(name: str) -> str | None:
    """The move that left this folder behind, if one did."""
    match = _DELETED.fullmatch(name)
    return None if match is None else match["move"]


def partition_name(name: str) -> str:
    """`{topic}-{partition}` of a folder that may be one of the future."""
    future = parse_future_name(name)
    return name if future is None else future.name


def name_aside(name: str, suffix: str) -> str:
    """A name that no other folder has, with DELETE_SUFFIX or STRAY_SUFFIX at its end.

    A topic's name may be 249 characters long, and file systems take 255: as with Kafka it is the
    topic that is cut.
    """
    topic, partition = parse_directory_name(name)
    tail = f"-{partition}.{uuid4().hex}{suffix}"
    return topic[: _MAX_NAME_BYTES - len(tail)] + tail
