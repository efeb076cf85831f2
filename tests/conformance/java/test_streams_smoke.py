"""Kafka Streams' own system test, exactly_once_v2, while brokers and applications are killed.

Its driver sends for a minute and a half and then verifies counts, sums, windows and joins: too long
for CI, so `make conformance` runs it.
"""

import time
from pathlib import Path
from random import Random

import pytest

from crash_kit.targets import OneBroker, Target, ThreeBrokers
from kit.jars import KAFKA_4, classpath, jars
from kit.kafka_tools import kafka_tool
from kit.process import ServerProcess
from kit.seeds import seed
from kit.tools import require_tool
from kit.waiting import wait_for

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

_GROUP = "org.apache.kafka:"
_ARTIFACTS = (
    f"{_GROUP}kafka-streams:{KAFKA_4}",
    f"{_GROUP}kafka-streams:{KAFKA_4}:test",
    f"{_GROUP}kafka-clients:{KAFKA_4}:test",
    "org.slf4j:slf4j-nop:1.7.36",
)
_MAIN = "org.apache.kafka.streams.tests.StreamsSmokeTest"
_TOPICS = (
    *("data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw"),
    *("sws-suppressed", "cnt", "avg", "tagg", "fk"),
)
PARTITIONS = 4
KILLS = 6
PAUSE_S = 8


class SmokeTest:
    """The programs of the system test."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._folder = folder
        self._properties = folder / "streams.properties"
        self._properties.write_text(
            f"bootstrap.servers={bootstrap}\nprocessing.guarantee=exactly_once_v2\n"
            # A killed application is missed sooner, and its transactions end sooner.
            "session.timeout.ms=6000\nheartbeat.interval.ms=1000\n"
            "producer.transaction.timeout.ms=10000\n"
        )
        self._started = 0

    def start(self, command: str) -> ServerProcess:
        self._started += 1
        memory = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # The applications keep their state where the JVM puts temporary files.
        state = f"-Djava.io.tmpdir={self._folder}"
        arguments = [_MAIN, str(self._properties), command]
        line = ["java", *memory, state, "-cp", classpath(jars(*_ARTIFACTS)), *arguments]
        return ServerProcess(line, self._folder / f"{command}-{self._started}.out")


@pytest.mark.parametrize("kind", [OneBroker, ThreeBrokers])
def test_streams_verify_every_result_after_kills(tmp_path: Path, kind: type[Target]) -> None:
    require_tool("java", "mvn")
    random = Random(seed())
    brokers = kind(tmp_path)
    smoke = SmokeTest(brokers.bootstrap, tmp_path)
    running: list[ServerProcess] = []
    try:
        for topic in _TOPICS:
            create(brokers.bootstrap, topic, brokers.replicas)
        running += [smoke.start("process"), smoke.start("process")]
        driver = smoke.start("run")
        running.append(driver)
        for number in range(KILLS):
            time.sleep(PAUSE_S)
            if number % 2:
                brokers.replace_one(random)
            else:
                running.pop(0).kill()
                running.insert(1, smoke.start("process"))
        wait_for(lambda: not driver.is_running(), 400)
        output = driver.output()
        assert "SUCCESS" in output.splitlines(), output[-3000:]
        assert "ALL-RECORDS-DELIVERED" in output
        assert "PROCESSED-MORE-THAN-GENERATED" not in output
    finally:
        for process in running:
            process.kill()
        brokers.stop()


def create(bootstrap: str, topic: str, replicas: int) -> None:
    arguments = ["--create", "--topic", topic, "--partitions", str(PARTITIONS)]
    arguments += ["--replication-factor", str(replicas)]
    kafka_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, *arguments)
