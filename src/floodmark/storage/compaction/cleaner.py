"""Compacts topics: picks the dirtiest log, has it cleaned, swaps the result in.

Started by `broker`. A separate process (compaction_worker.py) does the work and exists only while
there is something to clean. Here, on the loop, swapping segments takes a few microseconds; disk
work runs in the executor.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from floodmark.child_python import child_python
from floodmark.clock import Clock
from floodmark.occurrences import Occurrences, repeated
from floodmark.storage import checkpoints
from floodmark.storage.checkpoints import CorruptCheckpoint
from floodmark.storage.compaction.cleanable import Cleanable, examine
from floodmark.storage.compaction.compaction import CleanedGroup
from floodmark.storage.compaction.compaction_worker import GroupDone, JobDone, decode_answer
from floodmark.storage.errors import LogClosed, StorageError
from floodmark.storage.files import Files
from floodmark.storage.indexes.index_file import CorruptIndex
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log.segment import Segment
from floodmark.storage.recovery.segment_files import CLEANED_SUFFIX
from floodmark.vocabulary import TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

_WORKER_MODULE: Final = "floodmark.storage.compaction.compaction_worker"

# A job for a large log with many producers is a long line.
_LINE_LIMIT_BYTES = 1 << 28

# A quarter of an hour by default. A retry starts over with the first segment. On a nearly full
# disk, the cleaner would do nothing else.
MAX_REST_ROUNDS: Final = 64


@dataclass(slots=True)
class CleanerSettings:
    """`log.cleaner.*`; the broker may change them while the cleaner runs."""

    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 134_217_728
    io_bytes_per_second: float = sys.float_info.max


class CleaningFailed(Exception):
    """This round failed. `is_final` means that only a restart allows another."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


@dataclass(slots=True)
class _Failures:
    """The failures of one log since it was last cleaned. Each doubles its pause."""

    rest_rounds: int = 0
    next_round: int = 0


_TROUBLE_OF_ONE_LOG: Final = (CleaningFailed, StorageError, OSError, CorruptIndex)


class RunLater(Protocol):
    """`broker.delayed_work`: runs blocking work after a delay."""

    def __call__(self, delay_ms: int, work: Callable[[], None]) -> object: ...


class LogCleaner:
    """`candidates` returns this broker's logs with their high watermarks."""

    def __init__(
        self,
        files: Files,
        candidates: Callable[[], Iterable[tuple[PartitionLog, int]]],
        clock: Clock,
        executor: Executor,
        run_later: RunLater,
        settings: CleanerSettings,
    ) -> None:
        self._files = files
        self._candidates = candidates
        self._clock = clock
        self._executor = executor
        self._run_later = run_later
        self.settings = settings
        self._clean_offsets: dict[Path, dict[TopicPartition, int]] = {}
        self._logs: set[PartitionLog] = set()
        self._uncleanable: set[PartitionLog] = set()
        self._failed: dict[PartitionLog, _Failures] = {}
        self._round = 0
        self._problems = Occurrences()
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="log cleaner")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stop_process()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.settings.backoff_ms / 1000)
            try:
                self.begin_round()
                while await self.clean_one():
                    pass
            except Exception:
                logger.exception("the log cleaner pauses after a failure")
            await self._stop_process()

    def begin_round(self) -> None:
        """Allows failed logs to be retried, sooner if they failed less often.

        A recreated topic has a new log in a folder of the same name, so what was known about the
        earlier log is dropped.
        """
        self._round += 1
        logs = {log for log, _ in self._candidates()}
        gone, self._logs = self._logs - logs, logs
        self._uncleanable -= gone
        for log in gone:
            self._failed.pop(log, None)
            self._clean_offsets.get(log.directory.parent, {}).pop((log.topic, log.partition), None)

    async def clean_one(self) -> bool:
        """Cleans the dirtiest log that is due. Returns False if there is none."""
        target = await self._dirtiest()
        if target is None:
            return False
        try:
            await self._clean(target)
            self._failed.pop(target.log, None)
        except _TROUBLE_OF_ONE_LOG as problem:
            self._pass_over(target.log, problem)
            await self._stop_process()
        return True

    def _pass_over(self, log: PartitionLog, problem: Exception) -> None:
        """Lets the other logs have their turn."""
        is_final = isinstance(problem, CorruptIndex) or (
            isinstance(problem, CleaningFailed) and problem.is_final
        )
        logger.error(
            "could not compact %s%s: %s", log.directory, "" if is_final else " yet", problem
        )
        if is_final:
            self._uncleanable.add(log)
            return
        failures = self._failed.setdefault(log, _Failures())
        failures.rest_rounds = min(max(1, 2 * failures.rest_rounds), MAX_REST_ROUNDS)
        failures.next_round = self._round + failures.rest_rounds

    def _rests(self, log: PartitionLog) -> bool:
        failures = self._failed.get(log)
        return log in self._uncleanable or (
            failures is not None and self._round < failures.next_round
        )

    async def _dirtiest(self) -> Cleanable | None:
        now_ms = self._clock.now_ms()
        best: Cleanable | None = None
        for log, high_watermark in list(self._candidates()):
            if not log.config.is_compacted or self._rests(log):
                continue
            if len(log.segments) < 2:
                continue
            clean_offsets = await self._offsets_of(log.directory.parent)
            clean_offset = clean_offsets.get((log.topic, log.partition))
            try:
                found = examine(log, high_watermark, clean_offset, now_ms)
            except _TROUBLE_OF_ONE_LOG as problem:
                self._pass_over(log, problem)
                continue
            if found.is_due and (best is None or found.dirty_ratio > best.dirty_ratio):
                best = found
        return best

    async def _clean(self, target: Cleanable) -> None:
        log = target.log
        job = target.job(self._clock.now_ms(), self.settings.dedupe_buffer_bytes)
        process = await self._start_process()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        started_ms = self._clock.monotonic_ms()
        bytes_before = bytes_after = 0
        while True:
            line = await process.stdout.readline()
            if not line:
                self._process = None
                raise CleaningFailed(f"the cleaner process exited with {await process.wait()}")
            answer = decode_answer(line)
            if isinstance(answer, GroupDone):
                await self._swap(target, answer.group)
                bytes_before += answer.group.bytes_before
                bytes_after += answer.group.bytes_after
            elif isinstance(answer, JobDone):
                break
            else:
                raise CleaningFailed(answer.reason, is_final=answer.is_corrupt)
        await self._note_clean(log, answer.clean_offset)
        logger.info(
            "compacted %s up to offset %d: %d bytes became %d in %d ms",
            log.directory.name,
            answer.clean_offset,
            bytes_before,
            bytes_after,
            self._clock.monotonic_ms() - started_ms,
        )

    async def _swap(self, target: Cleanable, group: CleanedGroup) -> None:
        log = target.log
        cleaned = await self._in_thread(lambda: self._load_cleaned(log, group.base_offset))
        replaced = [s for s in target.segments if s.base_offset in set(group.replaced)]
        if not log.swap_in(cleaned, replaced):
            # Retention or a truncation was faster.
            await self._in_thread(lambda: _discard(cleaned))
            raise CleaningFailed(f"{log.directory.name} has changed meanwhile")
        try:
            retired = await self._in_thread(lambda: log.finish_swap(cleaned, replaced))
        except LogClosed:
            raise
        except StorageError as problem:
            # Reads use the new segment, but its names still belong to the old files: the next
            # compaction would take those for it. A start puts the folder in order.
            raise CleaningFailed(f"until a restart: {problem}", is_final=True) from problem
        self._run_later(log.config.file_delete_delay_ms, retired.remove)

    def _load_cleaned(self, log: PartitionLog, base_offset: int) -> Segment:
        """Reads everything that needs a path, because the files are about to be renamed."""
        segment = Segment.load(self._files, log.directory, base_offset, log.config, CLEANED_SUFFIX)
        segment.load_indexes()
        segment.file.size()
        return segment

    # The clean offsets of each log folder

    async def _offsets_of(self, log_dir: Path) -> dict[TopicPartition, int]:
        known = self._clean_offsets.get(log_dir)
        if known is None:
            known = await self._in_thread(lambda: self._read_offsets(log_dir))
            self._clean_offsets[log_dir] = known
        return known

    def _read_offsets(self, log_dir: Path) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self._files, log_dir / checkpoints.CLEANER_OFFSETS)
        except (CorruptCheckpoint, OSError) as problem:
            logger.warning("%s: %s; treating all of its logs as dirty", log_dir, problem)
            return {}

    async def _note_clean(self, log: PartitionLog, clean_offset: int) -> None:
        log_dir = log.directory.parent
        existing = {(other.topic, other.partition) for other, _ in self._candidates()}
        offsets = {k: v for k, v in (await self._offsets_of(log_dir)).items() if k in existing}
        offsets[log.topic, log.partition] = clean_offset
        self._clean_offsets[log_dir] = offsets
        path = log_dir / checkpoints.CLEANER_OFFSETS
        try:
            await self._in_thread(lambda: checkpoints.write_offsets(self._files, path, offsets))
        except OSError as problem:
            # The log is clean anyway. Without the file, it counts as dirty after a restart.
            times = self._problems.worth_telling(f"{path} {problem.errno}")
            if times:
                text = "could not write %s%s: %s"
                logger.error(text, path, repeated(times), problem)

    # The process

    async def _start_process(self) -> asyncio.subprocess.Process:
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *child_python(_WORKER_MODULE, str(self.settings.io_bytes_per_second)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_LIMIT_BYTES,
            )
        return self._process

    async def _stop_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await process.wait()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def _discard(segment: Segment) -> None:
    segment.close_file()
    segment.remove_files()
