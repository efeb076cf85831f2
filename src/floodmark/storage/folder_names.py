"""Names of the folders of partitions: `{topic}-{partition}`, and with what behind it when they go.

Called by partition_log.py and log_manager.py.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
_MAX_NAME_BYTES: Final = 255


def parse_directory_name(name: str) -> tuple[str, int]:
    """Topic and partition of a folder `{topic}-{partition}`; ValueError for other names."""
    topic, _, partition = name.rpartition("-")
    # Not `t-00`: that would be a second folder of one partition.
    if not topic or not partition.isdecimal() or str(int(partition)) != partition:
        raise ValueError(f"{name!r} is not the folder of a partition")
    return topic, int(partition)


def name_aside(name: str, suffix: str) -> str:
    """A name that no other folder has, with DELETE_SUFFIX or STRAY_SUFFIX at its end.

    A topic's name may be 249 characters long, and file systems take 255: as with Kafka it is the
    topic that is cut.
    """
    topic, partition = parse_directory_name(name)
    tail = f"-{partition}.{uuid4().hex}{suffix}"
    return topic[: _MAX_NAME_BYTES - len(tail)] + tail
