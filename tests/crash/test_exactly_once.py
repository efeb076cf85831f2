"""kill -9 of the broker and of a transactional copier, in turn, while it copies a topic.

In the end a read_committed reader finds every input exactly once in the output, and no transaction
is left open. `FLOODMARK_CRASH_ROUNDS` says how often something is killed (at most 30 here),
`FLOODMARK_CRASH_SEED` repeats a schedule.
"""

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import crash_kit.copier
from floodmark.client.admin import Admin
from floodmark.client.admin_types import NewTopic
from kit.broker import start_floodmark
from kit.process import free_port

ROUNDS = int(os.environ.get("FLOODMARK_EOS_ROUNDS", "4"))
SEED = int(os.environ.get("FLOODMARK_CRASH_SEED", "0")) or secrets.randbits(32)
PARTITIONS = 3
INPUTS_PER_ROUND = 100
LONGEST_LIFE_S = 1.5
LONGEST_WAIT_S = 90


@pytest.mark.timeout(LONGEST_WAIT_S + 120 + ROUNDS * 15)
def test_a_copy_under_kill_nine_has_every_input_exactly_once(tmp_path: Path) -> None:
    print(f"FLOODMARK_CRASH_SEED={SEED} FLOODMARK_CRASH_ROUNDS={ROUNDS}")
    random = Random(SEED)
    port = free_port()
    broker = start_floodmark(tmp_path, port=port)
    bootstrap = broker.bootstrap
    copier = start_copier(bootstrap)
    try:
        asyncio.run(create_topics(bootstrap))
        source = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        inputs = 0
        for _ in range(ROUNDS):
            for _ in range(INPUTS_PER_ROUND):
                source.produce("input", f"{inputs}".encode(), partition=inputs % PARTITIONS)
                inputs += 1
            time.sleep(random.uniform(0.1, LONGEST_LIFE_S))
            if random.random() < 0.6:
                broker.process.kill()
                broker = start_floodmark(tmp_path, port=port)
            else:
                kill(copier)
                copier = start_copier(bootstrap)
        assert source.flush(60) == 0
        outputs = read_until(bootstrap, inputs)
        assert not (Counter(range(inputs)) - outputs), "an input is missing"
        assert not (outputs - Counter(range(inputs))), "an input is there twice"
        kill(copier)
        assert_nothing_is_open(bootstrap)
        print(f"{ROUNDS} rounds, {inputs} inputs, each copied once")
    finally:
        kill(copier)
        broker.process.stop()


def start_copier(bootstrap: str) -> subprocess.Popen[bytes]:
    program = crash_kit.copier.__file__
    return subprocess.Popen(
        [sys.executable, program, bootstrap, "input", "output"], stdin=subprocess.PIPE
    )


def kill(copier: subprocess.Popen[bytes]) -> None:
    copier.kill()
    copier.wait()
    assert copier.stdin is not None
    copier.stdin.close()


async def create_topics(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        for name in ("input", "output"):
            await admin.create_topic(NewTopic(name, PARTITIONS, 1))


def read_until(bootstrap: str, count: int) -> Counter[int]:
    """All outputs, until there are as many as inputs and nothing more comes for a moment."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("output", p, 0) for p in range(PARTITIONS)])
    outputs: Counter[int] = Counter()
    deadline = time.monotonic() + LONGEST_WAIT_S
    while time.monotonic() < deadline:
        messages = [m for m in consumer.consume(500, 1.0) if m.error() is None]
        outputs.update(int(message.value()) for message in messages)
        if not messages and outputs.total() >= count:
            break
    consumer.close()
    return outputs


def assert_nothing_is_open(bootstrap: str) -> None:
    """The last stable offset reaches the end of every partition, at the latest when the last
    transaction has run out of its time."""
    deadline = time.monotonic() + LONGEST_WAIT_S
    while ends(bootstrap, "read_committed") != ends(bootstrap, "read_uncommitted"):
        assert time.monotonic() < deadline, "a transaction hangs"
        time.sleep(0.5)


def ends(bootstrap: str, isolation: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": isolation}
    )
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition("output", p), timeout=10)[1]
            for p in range(PARTITIONS)
        ]
    finally:
        consumer.close()
