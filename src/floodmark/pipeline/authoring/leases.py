"""Leases that keep a second run away from a checkpoint on a file system without locks.

Called by `checkpoints.py`. The owner rewrites a small file every few seconds. A newcomer takes over
when the file stops changing, or at once if the owner was a process of the same machine that is
gone. Two newcomers at the same moment both write; the one whose file survives wins. An owner that
finds another's file, or cannot renew its own in time, must stop: see `check`.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from floodmark.clock import Clock, SystemClock
from floodmark.pipeline.errors import PipelineError

RENEWAL_SECONDS = 10.0
# Six missed renewals: an owner that slow has stopped itself.
EXPIRY_SECONDS = 60.0
# Longer than a write of a small file takes, so that a rival's write is seen.
SETTLE_SECONDS = 1.0


class LeaseFile(Protocol):
    def exists(self) -> bool: ...
    def read_text(self, encoding: str = "utf-8") -> str: ...
    def write_whole(self, text: str) -> None: ...
    def remove(self) -> None: ...


@dataclass(frozen=True)
class Owner:
    owner: str
    host: str
    # Together they say whether the process can be asked for from here.
    machine: str
    pid: int
    renewal: int = 0

    @classmethod
    def this_process(cls) -> Owner:
        return cls(uuid.uuid4().hex, socket.gethostname(), _machine(), os.getpid())

    @property
    def is_gone(self) -> bool:
        """Whether it was here and has ended. False if it ran elsewhere."""
        return self.machine == _machine() and not Path(f"/proc/{self.pid}").exists()


class Lease:
    def __init__(self, path: LeaseFile, pipeline: str, clock: Clock | None = None) -> None:
        self._path = path
        self._pipeline = pipeline
        self._clock = clock or SystemClock()
        self._mine = Owner.this_process()
        self._renewed_ms = 0.0
        self._ended = threading.Event()
        self._rival: Owner | None = None
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def acquire(self) -> None:
        known = self._read()
        if known is not None and not known.is_gone and self._changes(known):
            raise self._refusal(known)
        self._write()
        self._ended.wait(SETTLE_SECONDS)
        found = self._read()
        if found is None or found.owner != self._mine.owner:
            raise self._refusal(found)
        self._thread.start()

    def release(self) -> None:
        self._ended.set()
        self._thread.join()
        found = self._read()
        if found is not None and found.owner == self._mine.owner:
            self._path.remove()

    def check(self) -> None:
        """Raises if another run may have taken over."""
        if self._rival is not None:
            raise PipelineError(
                f"pipeline {self._pipeline} was taken over by process {self._rival.pid} on "
                f"{self._rival.host}: this run ends, so that only one of them writes"
            )
        if self._clock.monotonic_ms() - self._renewed_ms > EXPIRY_SECONDS * 1000:
            raise PipelineError(
                f"the lease {self._path} could not be renewed for {EXPIRY_SECONDS:.0f} s, so "
                "another run may have taken over: this run ends. Start it again when the file "
                "system responds"
            )

    def _changes(self, known: Owner) -> bool:
        """Waits for a renewal by the owner, at most until its lease has expired."""
        waited = 0.0
        while waited < EXPIRY_SECONDS:
            self._ended.wait(SETTLE_SECONDS)
            waited += SETTLE_SECONDS
            now = self._read()
            if now is None:
                return False
            if now != known:
                return True
        return False

    def _keep(self) -> None:
        while not self._ended.wait(RENEWAL_SECONDS):
            try:
                found = self._read()
                if found is not None and found.owner != self._mine.owner:
                    self._rival = found
                    return
                self._write()
            except (PipelineError, OSError):
                # `check` ends the run if this lasts.
                continue

    def _write(self) -> None:
        renewal = self._mine.renewal + 1
        self._mine = Owner(**{**asdict(self._mine), "renewal": renewal})
        self._path.write_whole(json.dumps(asdict(self._mine)) + "\n")
        self._renewed_ms = self._clock.monotonic_ms()

    def _read(self) -> Owner | None:
        try:
            return Owner(**json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise PipelineError(
                f"the lease {self._path} is damaged ({error}): make sure that pipeline "
                f"{self._pipeline} is not running, then remove it"
            ) from error

    def _refusal(self, owner: Owner | None) -> PipelineError:
        where = "" if owner is None else f" by process {owner.pid} on {owner.host}"
        return PipelineError(
            f"pipeline {self._pipeline} is already running with this checkpoint, held{where} "
            f"({self._path}): stop it first, or choose another folder with --checkpoint"
        )


def _machine() -> str:
    """Identifies a kernel and a namespace of process ids, within which a pid means something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        # Unknown: only time can tell whether such an owner is gone.
        return uuid.uuid4().hex
