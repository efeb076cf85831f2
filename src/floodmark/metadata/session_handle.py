"""Keeps a broker's ZooKeeper session in its log folder. Used by zookeeper_store.

A killed broker leaves ephemeral nodes until its session expires. The next process that locks the
same folder ends that session immediately instead of waiting.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from floodmark.zookeeper.client import SessionHandle

FILE_NAME = "zookeeper-session"


class SessionHandleFile:
    """Blocking. Not synced, because an old or missing handle after a power cut is harmless."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME

    def read(self) -> SessionHandle | None:
        try:
            document = json.loads(self._path.read_text())
            return int(document["id"]), bytes.fromhex(document["password"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, handle: SessionHandle) -> None:
        """Readable only by this user, because the password allows ending the session."""
        text = json.dumps({"id": handle[0], "password": handle[1].hex()})
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
