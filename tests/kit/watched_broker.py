"""A broker in a process of its own that knows how long its loop was busy at a stretch.

Measured is CPU time of the loop's thread between two ticks a millisecond apart: other processes on
a busy machine take none of it. Run by `start_watched_broker`.
"""

import asyncio
import json
import mmap
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from struct import Struct

from kit.broker import Broker
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

_LONGEST = Struct("d")
_TICK_S = 0.001
_RESET_PEAK = "5"  # to /proc/PID/clear_refs, see proc(5)


class WatchedBroker:
    """From the test's side: what happened since `reset`."""

    def __init__(self, broker: Broker, gauge: Path) -> None:
        self.broker = broker
        self._gauge = gauge
        self._before_bytes = 0

    def reset(self) -> None:
        with self._gauge.open("r+b") as gauge:
            gauge.write(_LONGEST.pack(0.0))
        Path(f"/proc/{self.broker.process.pid}/clear_refs").write_text(_RESET_PEAK)
        self._before_bytes = self.broker.process.rss_bytes()

    def longest_stall_s(self) -> float:
        stall: float = _LONGEST.unpack(self._gauge.read_bytes())[0]
        return stall

    def growth_bytes(self) -> int:
        """How far memory rose above what it was, even if it is given back by now."""
        for line in Path(f"/proc/{self.broker.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 - self._before_bytes
        raise RuntimeError("the broker has ended")


def start_watched_broker(
    folder: Path, settings: Mapping[str, str], port: int | None = None
) -> WatchedBroker:
    """`port` is that of the PLAINTEXT listener, where `settings` bring listeners of their own."""
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    gauge = folder / "gauge"
    gauge.write_bytes(_LONGEST.pack(0.0))
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "data"),
        **settings,
    }
    command = [sys.executable, __file__, json.dumps(properties), str(gauge)]
    environment = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    process = ServerProcess(command, folder / "floodmark.out", environment)
    process.wait_until(lambda: broker_answers(port), timeout_s=30)
    return WatchedBroker(Broker(port, folder / "data", process), gauge)


def watch(gauge: mmap.mmap) -> None:
    """Called on the broker's loop."""
    loop = asyncio.get_running_loop()
    before_s = time.thread_time()

    def tick() -> None:
        nonlocal before_s
        now_s = time.thread_time()
        if now_s - before_s > _LONGEST.unpack_from(gauge)[0]:
            _LONGEST.pack_into(gauge, 0, now_s - before_s)
        before_s = now_s
        loop.call_later(_TICK_S, tick)

    tick()


def main() -> int:
    from floodmark.broker.main import run
    from floodmark.broker.preload import preload

    # A broker does this in a thread once it has started: it is no part of what a request costs.
    preload()
    properties, gauge_path = json.loads(sys.argv[1]), Path(sys.argv[2])
    with gauge_path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as gauge:
        return run(properties, ready=lambda _: watch(gauge))


if __name__ == "__main__":
    sys.exit(main())
