"""kill -9 of a broker while it compacts, again and again, under load.

Every key keeps its last value, no key is lost and none that was deleted comes back.
`FLOODMARK_COMPACTION_RECORDS` says how many records are written, `FLOODMARK_COMPACTION_KILLS` how
often the broker is killed, `FLOODMARK_SEED` repeats the records and the delays.
"""

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from crash_kit.reader import PartitionReader
from crash_kit.table import Rows, Table, read_table, read_undisturbed, segment_files
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.connection import Connection
from kit.broker import Broker, start_floodmark
from kit.process import free_port
from kit.seeds import seed
from kit.waiting import eventually, wait_for

RECORDS = int(os.environ.get("FLOODMARK_COMPACTION_RECORDS", "1000000"))
KILLS = int(os.environ.get("FLOODMARK_COMPACTION_KILLS", "8"))
SEED = seed()

TOPIC = "table"
KEYS = 20_000
LONGEST_DELAY_S = 0.1
LONGEST_WAIT_S = 60.0

# The cleaner has always something to do, and does it at once.
BROKER_SETTINGS = {"log.cleaner.backoff.ms": "1"}
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "file.delete.delay.ms": "100",
}


class Machine:
    """The broker, as often as it was started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.broker = self._start()

    def _start(self) -> Broker:
        return start_floodmark(self._folder, BROKER_SETTINGS, port=self.port)

    async def kill_while_cleaning(self, delay_s: float) -> None:
        """The delay begins when a cleaned segment is being written or swapped in."""
        await asyncio.to_thread(wait_for, self._is_cleaning, LONGEST_WAIT_S)
        await asyncio.sleep(delay_s)
        self.broker.process.kill()
        self.broker = await asyncio.to_thread(self._start)

    def _is_cleaning(self) -> bool:
        directory = self.broker.data_dir / f"{TOPIC}-0"
        return any(name.endswith((".cleaned", ".swap")) for name in os.listdir(directory))


@pytest.mark.timeout(120 + KILLS * 20)
def test_compaction_keeps_the_last_value_of_every_key_through_kill_nine(tmp_path: Path) -> None:
    print(f"FLOODMARK_SEED={SEED} records={RECORDS} kills={KILLS}")
    machine = Machine(tmp_path)
    try:
        asyncio.run(change_and_kill(machine))
    finally:
        machine.broker.process.stop()


async def change_and_kill(machine: Machine) -> None:
    random = Random(SEED)
    async with Admin(machine.broker.bootstrap) as admin:
        await admin.create_topic(NewTopic(TOPIC, 1, 1, configs=TOPIC_CONFIGS))
    table = Table(machine.port, TOPIC, KEYS, Random(SEED))
    for _ in range(KILLS):
        delay_s = random.uniform(0, LONGEST_DELAY_S)
        await asyncio.gather(table.change(RECORDS // KILLS), machine.kill_while_cleaning(delay_s))
        await check(machine, table)
    left = RECORDS

    async def is_compacted() -> bool:
        nonlocal left
        left = await check(machine, table)
        return left < RECORDS / 2

    # On a busy machine the kills may have left the cleaner little time.
    await eventually(is_compacted, LONGEST_WAIT_S)
    print(f"{KILLS} kills, {len(table.rows)} keys in {left} records, all as written last")


async def check(machine: Machine, table: Table) -> int:
    """Compare the log with the model; returns how many records the log has.

    Every reading must find the last value of every key, also one that compaction overtakes; what
    was deleted must be gone from a reading that it does not overtake.
    """
    connection = await Connection.open("127.0.0.1", machine.port)
    reader = PartitionReader(connection, TOPIC, 0)
    directory = machine.broker.data_dir / f"{TOPIC}-0"
    count = 0

    async def read() -> Rows:
        nonlocal count
        rows, count = await read_table(reader)
        refuse_lost_values(rows, table)
        return rows

    try:
        rows = await read_undisturbed(read, lambda: segment_files(directory))
    finally:
        await connection.close()
    risen = rows.keys() - table.rows.keys()
    assert not risen, f"{len(risen)} deleted keys are back, such as {min(risen)!r}"
    return count


def refuse_lost_values(rows: Rows, table: Table) -> None:
    lost = table.rows.keys() - rows.keys()
    assert not lost, f"{len(lost)} keys are lost, such as {min(lost)!r}"
    old = [key for key, value in table.rows.items() if rows[key] != value]
    assert not old, f"{len(old)} keys have an old value, such as {old[0]!r}"
