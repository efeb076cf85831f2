"""A server process under test: in a session of its own, measured from outside, ended by pid.

Used for Apache Kafka, ZooKeeper and our own broker alike, so bench/ compares equal things.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

_CPU_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED: how clock_getcpuclockid(3) builds a clock id
_POLL_SECONDS = 0.02


def free_port() -> int:
    """A port nobody listens on now. The kernel does not hand it out again at once."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class ServerProcess:
    """One running server; its output goes to `log_path` and is shown when it fails to start."""

    def __init__(
        self,
        command: Sequence[str],
        log_path: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log_path = log_path
        self.started_at = time.monotonic()
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = 60.0) -> float:
        """Poll `ready`; returns the seconds since the process was started."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.is_running():
                raise RuntimeError(f"exited with {self._process.returncode}:\n{self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"not ready after {timeout_s} s:\n{self.output()}")
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - self.started_at

    def freeze(self) -> None:
        """It does nothing until it is thawed, and does not notice."""
        self._process.send_signal(signal.SIGSTOP)
        while "State:\tT" not in Path(f"/proc/{self.pid}/status").read_text():
            time.sleep(_POLL_SECONDS)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self, timeout_s: float = 60.0) -> int:
        """End it in order (SIGTERM); one that does not end is killed, and that is an error."""
        if self.is_running():
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"no end {timeout_s} s after SIGTERM:\n{self.output()}") from None

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.is_running():
            self._process.kill()
        self._process.wait()

    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far, to the nanosecond.

        The kernel's CPU clock of that process; /proc/PID/stat has the same sum in steps of 10 ms.
        """
        return time.clock_gettime((~self.pid << 3) | _CPU_CLOCK_OF_PROCESS)

    def rss_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"process {self.pid} has no resident memory: it has ended")
