"""A disk that fails on demand under a real broker: calls on files are made to fail inside it.

There is no device here that can be told to fail, so a small library (failing_disk.c) stands between
the process and the kernel.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kit.tools import require_tool

SOURCE = Path(__file__).with_name("failing_disk.c")


class FailingDisk:
    """Sound until `fail`. Wants a C compiler."""

    def __init__(self, folder: Path) -> None:
        require_tool("cc")
        self._library = folder / "failing_disk.so"
        self._rules = folder / "rules"
        self._hits = folder / "hits"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE)]
        subprocess.run(command, check=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process is started with that is to have this disk."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAILING_DISK_RULES": str(self._rules),
            "FAILING_DISK_HITS": str(self._hits),
        }

    def fail(self, rule: str) -> None:
        """From now on; the rule is a line as failing_disk.c has them."""
        replacement = self._rules.with_suffix(".new")
        replacement.write_text(rule + "\n")
        replacement.replace(self._rules)

    def heal(self) -> None:
        self._rules.unlink()

    @property
    def failures(self) -> int:
        """How many calls have failed so far."""
        return os.path.getsize(self._hits) if self._hits.exists() else 0
