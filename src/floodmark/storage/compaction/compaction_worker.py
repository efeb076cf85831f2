"""The cleaner process: compacts logs for a broker, one job after the other.

cleaner.py starts it with the allowed bytes per second as its argument. A job is a JSON line on
standard input. Responses are lines on standard output: a finished group of segments, the end of the
job, or why it failed. When the input closes, the broker is gone and this process exits at once,
whatever it is doing: a killed broker may return soon and clean the same log into files of the same
names. On Linux, the kernel kills it together with the broker, even if it is stopped or starved.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from threading import Thread
from time import sleep
from typing import BinaryIO, Final

import msgspec

from floodmark.clock import Clock, SystemClock
from floodmark.records.errors import CorruptRecord
from floodmark.storage.compaction.compaction import CleanedGroup, CompactionJob, compact
from floodmark.storage.files import RealFiles
from floodmark.storage.indexes.index_file import CorruptIndex

# The broker's loop and its clients have priority.
NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1


class JobDone(msgspec.Struct, tag="done"):
    """The log is clean below this offset."""

    clean_offset: int


class JobFailed(msgspec.Struct, tag="failed"):
    """`is_corrupt` means that retrying will not help."""

    reason: str
    is_corrupt: bool


class GroupDone(msgspec.Struct, tag="group"):
    group: CleanedGroup


Answer = JobDone | JobFailed | GroupDone


def decode_answer(line: bytes) -> Answer:
    answer: Answer = msgspec.json.decode(line, type=JobDone | JobFailed | GroupDone)
    return answer


def throttle(bytes_per_second: float, clock: Clock) -> Callable[[int], None]:
    """A `Pace` that sleeps whenever reading and writing exceed the allowed rate."""
    started_ms = clock.monotonic_ms()
    moved_bytes = 0

    def pace(size_bytes: int) -> None:
        nonlocal moved_bytes
        moved_bytes += size_bytes
        ahead_s = moved_bytes / bytes_per_second - (clock.monotonic_ms() - started_ms) / 1000
        if ahead_s > 0:
            sleep(ahead_s)

    return pace


def jobs_until_the_end(stream: BinaryIO) -> Iterable[bytes]:
    """The lines of the stream. Its end exits the process, even in the middle of a job."""
    jobs: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        for line in stream:
            jobs.put(line)
        os._exit(0)

    Thread(target=read, name="jobs", daemon=True).start()
    return iter(jobs.get, b"")


def serve(jobs: Iterable[bytes], answers: BinaryIO, bytes_per_second: float) -> None:
    files = RealFiles()
    clock = SystemClock()
    decoder = msgspec.json.Decoder(CompactionJob)

    def send(answer: Answer) -> None:
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()

    for line in jobs:
        job = decoder.decode(line)
        try:
            clean_offset = compact(
                files, job, lambda group: send(GroupDone(group)), throttle(bytes_per_second, clock)
            )
        except (CorruptRecord, CorruptIndex, OSError) as problem:
            send(JobFailed(str(problem), not isinstance(problem, OSError)))
        else:
            send(JobDone(clean_offset))


def end_with_parent() -> None:
    """Makes the kernel kill this process when its parent exits. If the parent exited before this
    call, the end of the input shows it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    end_with_parent()
    os.nice(NICENESS)
    try:
        serve(jobs_until_the_end(sys.stdin.buffer), sys.stdout.buffer, float(sys.argv[1]))
    except BrokenPipeError:
        # The broker is gone, so even the interpreter's final flush would not reach it.
        os._exit(0)


if __name__ == "__main__":
    main()
