"""Runs the process of one broker in a test cluster. Used by `cluster.py`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from floodmark.clock import SystemClock

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
ORDER_TIMEOUT_S = 30.0
_SHOWN_BYTES = 4000


class BrokerProcess:
    """Starts the process. `wait_until_ready` waits until the broker serves requests."""

    def __init__(
        self, broker_id: int, program: Sequence[str], properties: Mapping[str, str], log: Path
    ) -> None:
        self.broker_id = broker_id
        self.is_paused = False
        self._log = log
        self._received = b""
        self._lock = threading.Lock()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*program, json.dumps(properties)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                # Ctrl-C goes to the test, which stops its brokers cleanly.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until_bound(self) -> dict[str, int]:
        """The port of each listener, before the broker serves requests."""
        ports: dict[str, int] = self._answer(START_TIMEOUT_S)["ports"]
        return ports

    def wait_until_ready(self) -> None:
        self._answer(START_TIMEOUT_S)

    def order(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Runs a `child.py` command in the broker's process."""
        self._require_running()
        if self.is_paused:
            raise RuntimeError(f"broker {self.broker_id} is paused: resume it first")
        line = json.dumps({"name": name, "args": args, "kwargs": kwargs}).encode() + b"\n"
        with self._lock:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line)
            except BrokenPipeError:
                raise self._failure("is not running") from None
            answer = self._answer(ORDER_TIMEOUT_S)
        if "problem" in answer:
            raise ValueError(answer["problem"])
        return answer["result"]

    def kill(self) -> None:
        """Sends SIGKILL, like a crash. Works on a paused process too."""
        self._process.kill()
        self._ended(STOP_TIMEOUT_S)

    def terminate(self) -> None:
        """Starts a clean shutdown. `wait` waits for the exit."""
        self.resume()
        self._process.terminate()

    def wait(self) -> None:
        try:
            self._ended(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"did not stop within {STOP_TIMEOUT_S:.0f} s") from None

    def pause(self) -> None:
        """Sends SIGSTOP and returns once the process has stopped."""
        self._require_running()
        if not self.is_paused:
            self._process.send_signal(signal.SIGSTOP)
            os.waitpid(self.pid, os.WUNTRACED)
            self.is_paused = True

    def resume(self) -> None:
        if self.is_paused:
            self._process.send_signal(signal.SIGCONT)
            self.is_paused = False

    def _require_running(self) -> None:
        if not self.is_running:
            raise self._failure("is not running")

    def _ended(self, timeout_s: float) -> None:
        self._process.wait(timeout_s)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        for line in self._lines(timeout_s):
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise self._failure(f"did not respond within {timeout_s:.0f} s")

    def _lines(self, timeout_s: float) -> Iterator[bytes]:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        clock = SystemClock()
        deadline_ms = clock.monotonic_ms() + timeout_s * 1000
        while (left_ms := deadline_ms - clock.monotonic_ms()) > 0:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                yield line
            elif select.select([pipe], [], [], left_ms / 1000)[0]:
                received = os.read(pipe, 65536)
                if not received:
                    raise self._failure("has exited")
                self._received += received

    def _failure(self, what: str) -> RuntimeError:
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - _SHOWN_BYTES))
            end = log.read().decode(errors="replace")
        return RuntimeError(f"broker {self.broker_id} {what}. Its last log lines:\n{end}")
