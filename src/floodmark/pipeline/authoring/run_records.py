"""What a pipeline's last run did, in a small file next to its checkpoints.

Written by `runner.py` while it runs, read by `status.py`: whether it runs, since when, its last
error, and how fast each output is. A killed run cannot write its end, so a reader also looks
whether the process is alive and the file is fresh.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from floodmark.clock import Clock, SystemClock
from floodmark.pipeline.authoring.leases import Owner
from floodmark.pipeline.authoring.progress import OutputProgress
from floodmark.pipeline.errors import PipelineError
from floodmark.pipeline.spark.atomic_files import AnyPath, write_whole

logger = logging.getLogger(__name__)

RUN_FILE = "run.json"
RUNNING, STOPPED, FAILED = "running", "stopped", "failed"
_WRITE_EVERY_MS = 5_000
# A run that has not written for this long is not running, wherever it was.
_FRESH_MS = 60_000
_RATE_WINDOW_MS = 60_000
_KILLED = "the process ended without stopping: it was killed, or its machine failed"


@dataclass(frozen=True)
class OutputRecord:
    """One output's part of a run."""

    batch: int | None = None
    rows_in: int = 0
    rows_out: int = 0
    rows_in_per_second: float = 0.0
    rows_out_per_second: float = 0.0


@dataclass(frozen=True)
class RunRecord:
    state: str
    since_ms: int
    updated_ms: int
    owner: Owner
    error: str | None = None
    outputs: dict[str, OutputRecord] = field(default_factory=dict)

    def now(self, now_ms: int) -> RunRecord:
        """The record, with the end that a killed run could not write."""
        if self.state != RUNNING:
            return self
        if not self.owner.is_gone and now_ms - self.updated_ms < _FRESH_MS:
            return self
        end = self.updated_ms
        return RunRecord(FAILED, end, end, self.owner, _KILLED, self.outputs)


def read_run(folder: AnyPath) -> RunRecord | None:
    path = folder / RUN_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        document["owner"] = Owner(**document["owner"])
        outputs = document["outputs"].items()
        document["outputs"] = {name: OutputRecord(**output) for name, output in outputs}
        return RunRecord(**document)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(
            f"{path} is damaged ({error}): remove it, the next run writes it again"
        ) from error


def time_text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class RunRecorder:
    """Keeps the file of one run up to date."""

    def __init__(self, folder: AnyPath, clock: Clock | None = None) -> None:
        self._folder = folder
        self._clock = clock or SystemClock()
        self._owner = Owner.this_process()
        self._since_ms = self._clock.now_ms()
        self._written_ms = 0.0
        self._meters: dict[str, _Meter] = {}

    def started(self, outputs: Iterable[str]) -> None:
        """From now on, these are the pipeline's outputs. Others are forgotten."""
        self._meters = {name: _Meter() for name in outputs}
        self._write(RUNNING)

    def progressed(self, outputs: Sequence[OutputProgress]) -> None:
        now_ms = self._clock.monotonic_ms()
        for item in outputs:
            self._meters[item.name].add(item, now_ms)
        if now_ms - self._written_ms >= _WRITE_EVERY_MS:
            self._write(RUNNING)

    def ended(self, error: str | None) -> None:
        if not self._meters:
            # It failed before its outputs were known: keep those of the run before.
            known = read_run(self._folder)
            self._meters = {name: _Meter() for name in (known.outputs if known else ())}
        self._since_ms = self._clock.now_ms()
        self._write(STOPPED if error is None else FAILED, error)

    def _write(self, state: str, error: str | None = None) -> None:
        outputs = {name: meter.record() for name, meter in self._meters.items()}
        now_ms = self._clock.now_ms()
        record = RunRecord(state, self._since_ms, now_ms, self._owner, error, outputs)
        self._written_ms = self._clock.monotonic_ms()
        try:
            write_whole(self._folder / RUN_FILE, json.dumps(asdict(record), indent=2) + "\n")
        except (PipelineError, OSError) as failure:
            # It only informs. A run goes on without it, and fails by itself if it must.
            logger.warning("the state of the run could not be written: %s", failure)


class _Meter:
    """Rows per second over the last minute."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int]] = deque()
        self._batch: int | None = None

    def add(self, item: OutputProgress, now_ms: float) -> None:
        self._batch = item.batch
        self._samples.append((now_ms, item.rows_in_so_far, item.rows_out_so_far))
        while self._samples[0][0] < now_ms - _RATE_WINDOW_MS:
            self._samples.popleft()

    def record(self) -> OutputRecord:
        if not self._samples:
            return OutputRecord()
        (first_ms, first_in, first_out), (last_ms, last_in, last_out) = (
            self._samples[0],
            self._samples[-1],
        )
        seconds = (last_ms - first_ms) / 1000
        rates = (0.0, 0.0)
        if seconds > 0:
            rates = ((last_in - first_in) / seconds, (last_out - first_out) / seconds)
        return OutputRecord(self._batch, last_in, last_out, round(rates[0], 1), round(rates[1], 1))
