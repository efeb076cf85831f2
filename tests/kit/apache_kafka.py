"""Apache Kafka as a process: 4.3.0 in KRaft mode, 3.9.1 with ZooKeeper, from Maven Central's jars.

It is the reference: the same client tests run against it, bench/ compares with it, and the
adoption tests open the data folders it leaves behind.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kit.broker import Broker
from kit.jars import KAFKA_3, KAFKA_4, classpath, kafka_jars
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
# The JVM settings of Kafka's own start script, heap apart.
_JVM = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    _QUIET,
]
_CLUSTER_ID = "Zmxvb2RtYXJrLXRlc3QtMQ"
# A tool runs for a second or two: start fast, compile little.
_TOOL_JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _QUIET]

# One node: every internal topic has one replica, and nothing waits for members to come.
_ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "300000",
}


def tool_command(version: str, main_class: str, *arguments: str) -> list[str]:
    """The command line that runs one of Apache Kafka's tools."""
    jars = classpath(kafka_jars(version))
    return ["java", *_TOOL_JVM, "-cp", jars, main_class, *arguments]


def prepare_kraft(
    folder: Path, settings: Mapping[str, str] | None = None, heap: str = "1G"
) -> tuple[list[str], int]:
    """Format `folder`/data for Apache Kafka 4.3.0; returns its start command and its port."""
    port, controller_port = free_port(), free_port()
    properties = _ONE_NODE | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
    }
    config = _write_properties(folder / "server.properties", properties | dict(settings or {}))
    if not (folder / "data" / "meta.properties").exists():
        _format(config)
    return _broker_command(KAFKA_4, config, folder, heap), port


@contextmanager
def kraft_broker(
    folder: Path, settings: Mapping[str, str] | None = None, heap: str = "1G"
) -> Iterator[Broker]:
    """Apache Kafka 4.3.0, controller and broker in one process, data in `folder`/data."""
    command, port = prepare_kraft(folder, settings, heap)
    with _start(command, port, folder) as broker:
        yield broker


@contextmanager
def zookeeper_broker(
    folder: Path, settings: Mapping[str, str] | None = None, heap: str = "512m"
) -> Iterator[Broker]:
    """Apache Kafka 3.9.1 with a ZooKeeper of its own, data in `folder`/data."""
    port, zookeeper_port = free_port(), free_port()
    properties = _ONE_NODE | {
        "broker.id": "1",
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "data"),
    }
    config = _write_properties(folder / "server.properties", properties | dict(settings or {}))
    command = _broker_command(KAFKA_3, config, folder, heap)
    with _zookeeper(folder, zookeeper_port), _start(command, port, folder) as broker:
        yield broker


def zookeeper_member(
    folder: Path, broker_id: int, port: int, connect: str, settings: Mapping[str, str]
) -> list[str]:
    """The command of an Apache Kafka 3.9.1 broker in somebody else's ZooKeeper, data in
    `folder`/data."""
    properties = _ONE_NODE | {
        "broker.id": str(broker_id),
        "zookeeper.connect": connect,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "data"),
    }
    config = _write_properties(folder / "server.properties", properties | dict(settings))
    return _broker_command(KAFKA_3, config, folder, "512m")


def _broker_command(version: str, config: Path, folder: Path, heap: str) -> list[str]:
    flags = [f"-Xms{heap}", f"-Xmx{heap}", *_JVM, *_log4j(folder)]
    return ["java", *flags, "-cp", classpath(kafka_jars(version)), "kafka.Kafka", str(config)]


@contextmanager
def _start(command: list[str], port: int, folder: Path) -> Iterator[Broker]:
    with ServerProcess(command, folder / "kafka.out") as process:
        process.wait_until(lambda: broker_answers(port))
        yield Broker(port, folder / "data", process)


@contextmanager
def _zookeeper(folder: Path, port: int) -> Iterator[None]:
    properties = {
        "dataDir": str(folder / "zookeeper"),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
    }
    config = _write_properties(folder / "zookeeper.properties", properties)
    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    command = tool_command(KAFKA_3, main_class, str(config))
    command[1:1] = _log4j(folder)
    with ServerProcess(command, folder / "zookeeper.out"):
        # Kafka itself waits for ZooKeeper (zookeeper.connection.timeout.ms), so we need not.
        yield


def _log4j(folder: Path) -> list[str]:
    """3.9.1 logs through log4j 1: warnings and errors to the output that a failure shows."""
    config = folder / "log4j.properties"
    config.write_text(
        "log4j.rootLogger=WARN, out\n"
        "log4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=%d %p %c: %m%n\n"
    )
    return [f"-Dlog4j.configuration=file:{config}"]


def _format(config: Path) -> None:
    arguments = ["format", "-t", _CLUSTER_ID, "-c", str(config)]
    command = tool_command(KAFKA_4, "kafka.tools.StorageTool", *arguments)
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path
