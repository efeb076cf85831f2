"""Power loss at any write: recovery finds a valid prefix, and nothing synced is lost. A kill at any
write, within a recovery too, loses nothing at all.

A scenario runs on a disk in memory that records every operation; the disk is rewound to a moment,
loses power there in a legal way, and is opened again. For short lives that is every moment and, up
to a limit, every way: writes that were not synced are there in part, torn or as zeros, and any name
that was not synced is lost. Longer lives are sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from floodmark.records.batch import crc_ok, iter_headers, read_header
from floodmark.records.control import ControlType, EndTransactionMarker, encode_marker
from floodmark.records.record import Record, decode_records, encode_batch
from floodmark.storage.log.partition_log import PartitionLog
from floodmark.storage.log_config import LogConfig
from floodmark.storage.log_manager import LogManager
from floodmark.storage.producers.producer_state import AppendOrigin
from floodmark.storage.retention import segments_due
from floodmark.testing.crashing_files import CrashingFiles, CrashNow
from floodmark.testing.memory_files import MemoryFiles
from kit.seeds import seeds

NOW_MS = 1_700_000_000_000
LOG_DIR = Path("/logs")
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, retention_bytes=4000)
IMAGES_PER_MOMENT = 2
MOMENTS = 50
MOMENTS_OF_KILLS = 4
SHORT_STEPS = 12
IMAGES_OF_A_SHORT_LIFE = 40


@dataclass
class History:
    """What the scenario did, by the number of disk operations after which it was so."""

    values: dict[int, set[bytes]] = field(default_factory=dict)
    # (operations, synced log end, log start)
    moments: list[tuple[int, int, int]] = field(default_factory=list)

    def promised(self, operations: int) -> tuple[int, int]:
        """The synced end that must survive a loss at this moment, and the highest log start."""
        before = [moment for moment in self.moments if moment[0] <= operations]
        return (before[-1][1], max(moment[2] for moment in before)) if before else (0, 0)


def open_manager(files: MemoryFiles) -> tuple[LogManager, PartitionLog]:
    manager = LogManager(files, [LOG_DIR], recovery_threads=1)
    manager.open_dirs()
    manager.load(manager.found_partitions(), lambda topic: CONFIG, NOW_MS)
    log = manager.get_or_create("t", 0, None, CONFIG, now_ms=NOW_MS)
    return manager, log


class Scenario:
    """Random appends, syncs, retention and truncations on one log."""

    def __init__(self, seed: int, *, flush_every_message: bool, truncates: bool) -> None:
        self.random = Random(seed)
        self.files = CrashingFiles()
        self.manager, self.log = open_manager(self.files)
        self.history = History()
        self.leader_epoch = 0
        self.sequence = 0
        self.in_transaction = False
        self.flush_every_message = flush_every_message
        self.truncates = truncates

    def run(self, steps: int) -> None:
        for step in range(steps):
            self.step(step)
            self.promise()

    def promise(self) -> None:
        moment = (self.files.operations, self.log.recovery_point, self.log.log_start_offset)
        self.history.moments.append(moment)

    def step(self, step: int) -> None:
        choice = self.random.random()
        if choice < 0.75:
            self.append(step)
            if self.flush_every_message:
                self.sync()
        elif choice < 0.80:
            self.sync()
        elif choice < 0.84:
            self.manager.checkpoint_recovery_points()
        elif choice < 0.88:
            self.end_transaction(step)
        elif choice < 0.92:
            self.retain()
        elif choice < 0.96 and self.truncates:
            back = self.random.randint(1, 6)
            end = max(self.log.log_end_offset - back, self.log.log_start_offset)
            if end < self.log.recovery_point:
                # From here on less is promised, also if power fails while it happens.
                start = self.log.log_start_offset
                self.history.moments.append((self.files.operations, end - 3, start))
            self.manager.truncate_to(self.log, end, NOW_MS)
            self.in_transaction = bool(self.log.producers.ongoing)
            entry = self.log.producers.entries.get(5)
            self.sequence = entry.last_sequence + 1 if entry is not None else 0
            self.leader_epoch += 1
        else:
            self.leader_epoch += 1
            self.log.leader_epochs.assign(self.leader_epoch, self.log.log_end_offset)

    def retain(self) -> None:
        log = self.log
        due = segments_due(log, NOW_MS, log.recovery_point)
        bases = [segment.base_offset for segment in log.segments] + [log.log_end_offset]
        # From here on these records have expired, also if power fails while they go.
        moment = (self.files.operations, log.recovery_point, max(bases[due], log.log_start_offset))
        self.history.moments.append(moment)
        if due:
            self.manager.retire(log, log.detach_oldest(due, NOW_MS)).remove()

    def append(self, step: int) -> None:
        count = self.random.randint(1, 3)
        values = [b"%d-%d-" % (step, i) + b"x" * self.random.randint(0, 90) for i in range(count)]
        records = [Record(0, NOW_MS, b"k", value, []) for value in values]
        transactional = self.random.random() < 0.3 or self.in_transaction
        producer: dict[str, Any] = (
            {"producer_id": 5, "producer_epoch": 0, "base_sequence": self.sequence}
            if transactional
            else {}
        )
        batch = encode_batch(records, is_transactional=transactional, **producer)
        # Known before the write begins: any part of it may survive.
        for delta, value in enumerate(values):
            self.history.values.setdefault(self.log.log_end_offset + delta, set()).add(value)
        self.log.append(batch, read_header(batch), self.leader_epoch, NOW_MS)
        if transactional:
            self.sequence += count
            self.in_transaction = True

    def end_transaction(self, step: int) -> None:
        kind = self.random.choice(list(ControlType))
        marker = encode_marker(
            EndTransactionMarker(kind, step), producer_id=5, producer_epoch=0, timestamp_ms=NOW_MS
        )
        value = decode_records(marker)[0].value
        assert value is not None
        self.history.values.setdefault(self.log.log_end_offset, set()).add(value)
        header = read_header(marker)
        self.log.append(marker, header, self.leader_epoch, NOW_MS, origin=AppendOrigin.COORDINATOR)
        self.in_transaction = False

    def sync(self) -> None:
        self.log.fsync()
        if self.random.random() < 0.5:
            self.manager.checkpoint_recovery_points()


def check_image(image: MemoryFiles, history: History, operations: int) -> None:
    manager, log = open_manager(image)
    synced_end, newest_start = history.promised(operations)
    assert log.log_end_offset >= synced_end, "synced records are lost"
    records = read_everything(log)
    offsets = [record.offset for record in records]
    assert log.log_start_offset <= newest_start or not records, "records are lost at the start"
    assert offsets == list(range(log.log_start_offset, log.log_end_offset)), "not dense"
    for record in records:
        assert record.value in history.values[record.offset], "a record nobody wrote"
    assert log.leader_epochs.epochs == sorted(set(log.leader_epochs.epochs))
    check_producers(log)
    check_indexes(log)
    batch = encode_batch([Record(0, NOW_MS, b"k", b"after", [])])
    end_offset = log.log_end_offset
    log.append(batch, read_header(batch), 99, NOW_MS)
    assert (read_header(batch).base_offset, log.log_end_offset) == (end_offset, end_offset + 1)
    manager.close(NOW_MS)


def read_everything(log: PartitionLog) -> list[Record]:
    records: list[Record] = []
    offset = log.log_start_offset
    while (found := log.read(offset, 500, end_offset=log.log_end_offset)) is not None:
        data = found.read()
        for position, header in iter_headers(data):
            assert crc_ok(data, position, header), "a broken batch is served"
            records += decode_records(data, position)
            offset = header.next_offset
    return records


def check_producers(log: PartitionLog) -> None:
    """The recovered state is the one that a replay of the whole log gives, as far as it is kept."""
    open_transaction = None
    for segment, position, header in log.batches(log.log_start_offset, log.log_end_offset):
        if header.producer_id != 5:
            continue
        if header.is_control:
            open_transaction = None
        else:
            entry = log.producers.entries[5]
            last = header
            if open_transaction is None:
                open_transaction = header.base_offset
            assert entry.last_offset >= last.last_offset
        assert segment.size_bytes > position
    if open_transaction is not None:
        assert log.producers.entries[5].transaction_first_offset <= open_transaction


def check_indexes(log: PartitionLog) -> None:
    for segment in log.segments:
        segment.load_indexes()
        index = segment.offset_index
        batches = dict(segment.headers(0, segment.size_bytes))
        for relative, position in zip(index.relative_offsets, index.positions, strict=True):
            assert batches[position].last_offset == segment.base_offset + relative


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("flush_every_message", [False, True])
def test_every_power_loss_leaves_a_valid_prefix_with_all_that_was_synced(
    seed: int, flush_every_message: bool
) -> None:
    scenario = Scenario(seed, flush_every_message=flush_every_message, truncates=False)
    scenario.run(60)
    lose_power_everywhere(scenario, seed)


@pytest.mark.parametrize("seed", seeds(4))
def test_power_loss_around_truncations_leaves_only_what_was_written(seed: int) -> None:
    scenario = Scenario(seed, flush_every_message=False, truncates=True)
    scenario.run(60)
    lose_power_everywhere(scenario, seed)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize(
    ("flush_every_message", "truncates"), [(False, False), (True, False), (False, True)]
)
def test_every_legal_image_of_every_moment_of_a_short_life(
    seed: int, flush_every_message: bool, truncates: bool
) -> None:
    scenario = Scenario(seed, flush_every_message=flush_every_message, truncates=truncates)
    scenario.run(SHORT_STEPS)
    for operations in range(scenario.files.operations + 1):
        disk = scenario.files.at(operations)
        random = Random(f"{seed}-{operations}")
        for image in disk.crashes(IMAGES_OF_A_SHORT_LIFE, random):
            check_image(image, scenario.history, operations)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("truncates", [False, True])
def test_a_kill_within_a_recovery_takes_nothing_from_the_next(seed: int, truncates: bool) -> None:
    scenario = Scenario(seed, flush_every_message=False, truncates=truncates)
    scenario.run(60)
    for operations in Random(seed).sample(range(scenario.files.operations), MOMENTS_OF_KILLS):
        expected = state_of(scenario.files.at(operations))
        for disk in killed_recoveries(scenario.files, operations):
            assert state_of(disk) == expected


def killed_recoveries(files: CrashingFiles, operations: int) -> Iterator[CrashingFiles]:
    """After a kill at this moment: the disk when the recovery was killed before each change."""
    for changes in count():
        disk = files.at(operations)
        disk.crash_after = changes
        try:
            open_manager(disk)
        except CrashNow:
            yield disk.at(disk.operations)
        else:
            return


def state_of(disk: MemoryFiles) -> list[object]:
    """What a recovery makes of a disk."""
    _, log = open_manager(disk)
    producers = log.producers.entries.values()
    return [
        read_everything(log),
        log.aborted_transactions(log.log_start_offset, log.log_end_offset),
        log.leader_epochs.epochs,
        sorted((p.producer_id, p.last_sequence, p.transaction_first_offset) for p in producers),
    ]


def lose_power_everywhere(scenario: Scenario, seed: int) -> None:
    total = scenario.files.operations
    for operations in range(0, total + 1, max(1, total // MOMENTS)):
        disk = scenario.files.at(operations)
        check_image(disk.crash(), scenario.history, operations)
        for image in range(IMAGES_PER_MOMENT):
            random = Random(f"{seed}-{operations}-{image}")
            check_image(disk.crash(random), scenario.history, operations)
