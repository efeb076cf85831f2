"""One member of a group as a process that can be asked to leave, killed and stopped for a while.

Every member program (tests/clients/groups) takes BOOTSTRAP GROUP PATTERN STRATEGY, commits what it
has printed, leaves in order on SIGTERM, and prints JSON lines:
  {"event": "assigned" | "revoked", "partitions": ["topic/0", ...]}   what is added or taken
  {"event": "owns", "partitions": [...]}                              all there is, from here on
  {"event": "record", "partition": "topic/0", "offset": 7}
  {"event": "closed"}
"""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kit.process import ServerProcess


class Member:
    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._process = ServerProcess(command, log_path)

    def events(self) -> Iterator[dict[str, Any]]:
        for line in self._process.output().splitlines():
            # Clients log what they like, and a last line may still be half written.
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def owned(self) -> set[str]:
        """What it believes to own; nothing once it has ended."""
        if not self._process.is_running():
            return set()
        owned: set[str] = set()
        for event in self.events():
            match event["event"]:
                case "assigned":
                    owned |= set(event["partitions"])
                case "revoked":
                    owned -= set(event["partitions"])
                case "owns":
                    owned = set(event["partitions"])
        return owned

    def consumed(self) -> Counter[tuple[str, int]]:
        records = (event for event in self.events() if event["event"] == "record")
        return Counter((record["partition"], record["offset"]) for record in records)

    def leave(self) -> None:
        self._process.stop(timeout_s=30)
        assert any(event["event"] == "closed" for event in self.events()), self._process.output()

    def kill(self) -> None:
        self._process.kill()

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)
