"""What a fuzz run wants to know of the broker: the versions it serves, and its open sockets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from floodmark.client.cluster.connection import Connection
from floodmark.wire.api_keys import ApiKey
from kit.process import ServerProcess


def served_by(connection: Connection) -> Mapping[ApiKey, tuple[int, int]]:
    """What ApiVersions says, without the produce versions that are there only to be refused."""
    served = {ApiKey(key): versions for key, versions in connection.versions.items()}
    served[ApiKey.PRODUCE] = (3, served[ApiKey.PRODUCE][1])
    return served


def open_sockets(process: ServerProcess) -> int:
    count = 0
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            count += entry.readlink().name.startswith("socket:")
        except FileNotFoundError:
            continue
    return count
