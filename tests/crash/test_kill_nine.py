"""kill -9 of a real broker under idempotent load, again and again, on the same data folder.

Nothing acknowledged is lost, nothing is there twice, offsets are dense, the order of each key is
kept, and lookups by offset and time agree with a full scan. `FLOODMARK_CRASH_ROUNDS` says how often
the broker is killed, `FLOODMARK_SEED` repeats a schedule.
"""

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest

from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from kit.broker import Broker, start_floodmark, up_command
from kit.process import ServerProcess, free_port
from kit.seeds import seed

ROUNDS = int(os.environ.get("FLOODMARK_CRASH_ROUNDS", "8"))
SEED = seed()

TOPIC = "crash"
PARTITIONS = 4
LONGEST_LIFE_S = 0.6
KILLED_WHILE_STARTING_SHARE = 0.2
LONGEST_START_S = 0.4

TOPIC_CONFIGS = {
    "segment.bytes": "1048576",
    # Small indexes fill up after about 50 kB, so that crashes meet many segment rolls.
    "index.interval.bytes": "512",
    "segment.index.bytes": "800",
}


@pytest.mark.timeout(max(300, ROUNDS * 10))
def test_nothing_acknowledged_is_lost_or_repeated_by_kill_nine(tmp_path: Path) -> None:
    print(f"FLOODMARK_SEED={SEED} FLOODMARK_CRASH_ROUNDS={ROUNDS}")
    random = Random(SEED)
    port = free_port()
    ports = dict.fromkeys(range(PARTITIONS), port)
    broker = start_floodmark(tmp_path, port=port)
    load = Load(broker.bootstrap, TOPIC, PARTITIONS, SEED)
    checker = Checker(TOPIC, PARTITIONS, SEED)
    try:
        asyncio.run(create_topic(broker))
        load.start()
        for _ in range(ROUNDS):
            time.sleep(random.uniform(0, LONGEST_LIFE_S))
            broker.process.kill()
            if random.random() < KILLED_WHILE_STARTING_SHARE:
                kill_while_starting(tmp_path, port, random)
            broker = start_floodmark(tmp_path, port=port)
            asyncio.run(checker.check_growth(ports, load))
            assert not load.problems
        load.finish()
        assert not load.problems
        asyncio.run(checker.check_all(ports, load))
        print(f"{ROUNDS} rounds, {checker.records} records, all as promised")
    finally:
        load.finish()
        broker.process.stop()


def kill_while_starting(folder: Path, port: int, random: Random) -> None:
    """Recovery itself is cut off; the next one has to do it all over."""
    process = ServerProcess(up_command(port, folder / "data"), folder / "floodmark.out")
    time.sleep(random.uniform(0, LONGEST_START_S))
    process.kill()


async def create_topic(broker: Broker) -> None:
    async with Admin(broker.bootstrap) as admin:
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS, 1, configs=TOPIC_CONFIGS))
