"""P6: three brokers each, three replicas, acks=all; Apache Kafka 4.3.0 and Floodmark in one run.

`python bench/cluster.py [--target floodmark] [--rounds 3] [--scale 1]`. A cluster at a time: six
processes would not have a core each. CPU and memory are summed over the three brokers.
"""

import argparse
import select
import statistics
import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import load
import wire
from batches import RECORDS_PER_BATCH, make_batch
from servers import new_name

from kit.apache_kafka import prepare_kraft
from kit.broker import up_command
from kit.probe import broker_answers
from kit.process import ServerProcess, free_port

IDS = (1, 2, 3)
ACKS_ALL = -1
MESSAGES = 300_000
PACED, PER_SECOND, PACED_CONNECTIONS = 5_000, 1_000, 12
# A JVM's code is compiled as it is used: with two rounds Kafka's last was still twice its first.
WARM_UP_ROUNDS = 4
REST_S = 3.0
KAFKA_HEAP = "512m"

UNITS = {
    "rate": "messages per second, seen by the load",
    "cpu": "us of CPU per message, three brokers",
    "p50": "p50 at 1,000/s, ms",
    "p99": "p99 at 1,000/s, ms",
    "idle_rss": "memory of three idle brokers, MB",
}


@dataclass
class Cluster:
    name: str
    folder: Path
    ports: dict[int, int]
    commands: dict[int, list[str]]
    processes: dict[int, ServerProcess] = field(default_factory=dict)

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            log = self.folder / f"broker-{broker_id}.out"
            self.processes[broker_id] = ServerProcess(self.commands[broker_id], log)
        for broker_id in broker_ids:
            ready = partial(broker_answers, self.ports[broker_id])
            self.processes[broker_id].wait_until(ready, timeout_s=120)

    def kill(self) -> None:
        """Not asked to stop: the last of Kafka's controllers would wait for the others."""
        for process in self.processes.values():
            process.kill()

    def cpu_seconds(self) -> float:
        return sum(process.cpu_seconds() for process in self.processes.values())

    def rss_megabytes(self) -> float:
        return sum(process.rss_bytes() for process in self.processes.values()) / 1e6


def floodmark_commands(folder: Path) -> dict[int, tuple[list[str], int]]:
    commands = {}
    for broker_id in IDS:
        port = free_port()
        shared = {"node.id": str(broker_id), "floodmark.cluster.dir": str(folder / "cluster")}
        commands[broker_id] = up_command(port, folder / f"data-{broker_id}", shared), port
    return commands


def kafka_commands(folder: Path) -> dict[int, tuple[list[str], int]]:
    ports = {broker_id: (free_port(), free_port()) for broker_id in IDS}
    voters = ",".join(f"{i}@127.0.0.1:{controller}" for i, (_, controller) in ports.items())
    commands = {}
    for broker_id, (port, controller) in ports.items():
        own = folder / f"kafka-{broker_id}"
        own.mkdir(parents=True)
        plaintext = f"PLAINTEXT://127.0.0.1:{port}"
        settings = {
            "node.id": str(broker_id),
            "controller.quorum.voters": voters,
            "listeners": f"{plaintext},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": plaintext,
        }
        commands[broker_id] = prepare_kraft(own, settings, KAFKA_HEAP)[0], port
    return commands


TARGETS = {"kafka": kafka_commands, "floodmark": floodmark_commands}


@contextmanager
def running(name: str, folder: Path) -> Iterator[Cluster]:
    folder.mkdir(parents=True)
    planned = TARGETS[name](folder)
    ports = {broker_id: port for broker_id, (_, port) in planned.items()}
    commands = {broker_id: command for broker_id, (command, _) in planned.items()}
    cluster = Cluster(name, folder, ports, commands)
    try:
        cluster.start(*IDS)
        yield cluster
    finally:
        cluster.kill()


@contextmanager
def topic(cluster: Cluster) -> Iterator[tuple[bytes, list[wire.Connection]]]:
    """Three partitions on all brokers; connections to the leaders, in the order of partitions."""
    name = new_name()
    connections = [wire.Connection(port) for port in cluster.ports.values()]
    try:
        yield create(connections[0], name), connections
        wire.delete_topic(connections[0], name)
    finally:
        for connection in connections:
            connection.close()


def create(connection: wire.Connection, name: str) -> bytes:
    """Partition p is led by the broker at place p."""
    assignments = b""
    for partition in range(len(IDS)):
        replicas = IDS[partition:] + IDS[:partition]
        assignments += struct.pack(">i", partition) + wire.uvarint(len(IDS) + 1)
        assignments += struct.pack(">iii", *replicas) + b"\x00"
    body = b"\x02" + wire.compact(name) + struct.pack(">ih", -1, -1)
    body += wire.uvarint(len(IDS) + 1) + assignments + b"\x01\x00"
    frame = wire.request(19, 7, body + struct.pack(">ib", 30_000, 0) + b"\x00")
    at = 4 + 1 + 4 + 1 + len(wire.compact(name))
    deadline = time.monotonic() + 30
    while True:
        answer = connection.call(frame)
        (error_code,) = struct.unpack_from(">h", answer, at + 16)
        if not error_code:
            return answer[at : at + 16]
        # Brokers that have just started may not know each other yet.
        if time.monotonic() > deadline:
            raise wire.Refused(f"creating {name} answered error {error_code}")
        time.sleep(0.2)


def throughput(cluster: Cluster, scale: float) -> dict[str, float]:
    requests_each = max(int(MESSAGES * scale) // RECORDS_PER_BATCH // len(IDS), 1)
    with topic(cluster) as (topic_id, connections):
        frames = [wire.produce(topic_id, p, make_batch(), ACKS_ALL) for p in range(len(IDS))]
        for connection, frame in zip(connections, frames, strict=True):
            load.settle(connection, frame)
        cpu, start = cluster.cpu_seconds(), time.perf_counter()
        load.pipelined(connections, frames, requests_each)
        elapsed = time.perf_counter() - start
        cpu = cluster.cpu_seconds() - cpu
    sent = requests_each * len(IDS) * RECORDS_PER_BATCH
    return {"rate": sent / elapsed, "cpu": cpu * 1e6 / sent}


def latency(cluster: Cluster, scale: float) -> dict[str, float]:
    """Over several connections: a broker answers the requests of one in turn."""
    with topic(cluster) as (topic_id, _):
        routes = []
        for number in range(PACED_CONNECTIONS):
            partition = number % len(IDS)
            connection = wire.Connection(cluster.ports[IDS[partition]])
            frame = wire.produce(topic_id, partition, make_batch(1), ACKS_ALL)
            load.settle(connection, frame)
            routes.append((connection, frame))
        warm_up = PER_SECOND
        seconds = paced(routes, int(PACED * scale) + warm_up, PER_SECOND)
        for connection, _ in routes:
            connection.close()
    cuts = statistics.quantiles(seconds[warm_up:], n=100)
    return {"p50": cuts[49] * 1e3, "p99": cuts[98] * 1e3}


def paced(
    routes: list[tuple[wire.Connection, wire.Frame]], count: int, per_second: int
) -> list[float]:
    """A record every 1/`per_second` s, whatever the answers; seconds until each is acknowledged."""
    waiting: dict[object, tuple[wire.Connection, deque[float]]] = {
        connection.socket: (connection, deque()) for connection, _ in routes
    }
    latencies: list[float] = []
    sent = 0
    start = time.perf_counter()
    while len(latencies) < count:
        wait_s = 1.0
        if sent < count:
            wait_s = start + sent / per_second - time.perf_counter()
            if wait_s <= 0:
                connection, frame = routes[sent % len(routes)]
                waiting[connection.socket][1].append(time.perf_counter())
                connection.send(frame.data)
                sent += 1
                continue
        readable, _, _ = select.select(list(waiting), [], [], wait_s)
        for one in readable:
            connection, sent_at = waiting[one]
            for answer in connection.receive_ready():
                load.check_produced(answer)
                latencies.append(time.perf_counter() - sent_at.popleft())
    return latencies


def measure(cluster: Cluster, rounds: int, scale: float) -> dict[str, float]:
    time.sleep(REST_S)
    idle = cluster.rss_megabytes()
    for _ in range(WARM_UP_ROUNDS):
        throughput(cluster, scale)
        latency(cluster, scale)
    outcomes = [throughput(cluster, scale) | latency(cluster, scale) for _ in range(rounds)]
    for outcome in outcomes:
        print(cluster.name, outcome, file=sys.stderr, flush=True)
    medians = {name: statistics.median(one[name] for one in outcomes) for name in outcomes[0]}
    return medians | {"idle_rss": idle}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full load")
    arguments = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
        for name in arguments.target or list(TARGETS):
            with running(name, Path(folder) / name) as cluster:
                results[name] = measure(cluster, arguments.rounds, arguments.scale)
    print("| P6 |", " | ".join(results), "|")
    print("|---|" + "---|" * len(results))
    for measured, unit in UNITS.items():
        print(f"| {unit} |", " | ".join(f"{one[measured]:.4g}" for one in results.values()), "|")


if __name__ == "__main__":
    main()
