"""Kafka's TransactionalMessageCopier, the second version of KIP-890, under kill -9.

librdkafka, which tests/crash uses, speaks the first version.
"""

import asyncio
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from crash_kit.committed_reader import CommittedReader
from crash_kit.exactly_once import LONGEST_WAIT_S, check_copies, nothing_stays_open
from crash_kit.targets import OneBroker, Target, ThreeBrokers
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from kit.apache_kafka import tool_command
from kit.jars import KAFKA_4
from kit.process import ServerProcess
from kit.seeds import seed
from kit.tools import require_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.timeout(480)]

SOURCE, TARGET, NAME = "input", "output", "copier"
OUTPUT_PARTITIONS = 3
INPUTS = 10_000
TRANSACTION_SIZE = 10
KILLS = 6
PROGRESS = 200
LONGEST_LIFE_S = 0.5
# The copier asks for its offsets before it ends its predecessor's transaction: it waits for this.
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


class Copier:
    """It copies what was there when it came and ends; here it is always started again."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        arguments = ["--broker-list", bootstrap, "--input-topic", SOURCE, "--input-partition", "0"]
        arguments += ["--output-topic", TARGET, "--consumer-group", NAME]
        arguments += ["--transactional-id", NAME, "--transaction-timeout", "3000"]
        arguments += ["--transaction-size", str(TRANSACTION_SIZE), "--enable-random-aborts"]
        main_class = "org.apache.kafka.tools.TransactionalMessageCopier"
        self._command = tool_command(KAFKA_4, main_class, *arguments)
        self._log_path = folder / "copier.out"
        self.process = ServerProcess(self._command, self._log_path)

    def keep_running(self) -> None:
        if not self.process.is_running():
            self.process = ServerProcess(self._command, self._log_path)


@pytest.mark.parametrize("kind", [OneBroker, pytest.param(ThreeBrokers, marks=pytest.mark.soak)])
def test_kafkas_copier_copies_exactly_once_under_kill_nine(
    tmp_path: Path, kind: type[Target]
) -> None:
    require_tool("java", "mvn")
    random = Random(seed())
    brokers = kind(tmp_path, SETTINGS)
    bootstrap = brokers.bootstrap
    asyncio.run(create_topics(bootstrap, brokers.replicas))
    expected = produce(bootstrap)
    copier = Copier(bootstrap, tmp_path)

    def has_read(reader: CommittedReader, count: int) -> bool:
        copier.keep_running()
        return len(reader.seen) >= count

    try:
        with CommittedReader(bootstrap, TARGET, OUTPUT_PARTITIONS) as reader:
            for number in range(KILLS):
                goal = min(INPUTS, len(reader.seen) + PROGRESS)
                wait_for(lambda goal=goal: has_read(reader, goal), LONGEST_WAIT_S)
                time.sleep(random.uniform(0, LONGEST_LIFE_S))
                if number % 2:
                    copier.process.kill()
                else:
                    brokers.replace_one(random)
            assert len(reader.seen) < INPUTS, "all was copied before the last kill"
            wait_for(lambda: has_read(reader, INPUTS), brokers.replicas * LONGEST_WAIT_S)
            copier.process.kill()
            asyncio.run(nothing_stays_open(bootstrap, SOURCE, TARGET, NAME))
        check_copies(reader.seen, expected)
    finally:
        copier.process.kill()
        brokers.stop()


async def create_topics(bootstrap: str, replicas: int) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topic(NewTopic(SOURCE, 1, replicas))
        await admin.create_topic(NewTopic(TARGET, OUTPUT_PARTITIONS, replicas))


def produce(bootstrap: str) -> Counter[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap})
    values = [b"%d" % number for number in range(INPUTS)]
    for value in values:
        producer.produce(SOURCE, value)
    assert producer.flush(LONGEST_WAIT_S) == 0
    return Counter(values)
