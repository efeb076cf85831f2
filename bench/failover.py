"""How long producers stand still when a leader goes: three brokers, RF 3, acks=all.

`python bench/failover.py [--kills 10] [--how kill|stop|pause|cut]`. Each client sends a record
every 5 ms to one partition, with its default settings. The pause is the longest time between two
acknowledgements around the moment when the leader was killed, stopped, paused (SIGSTOP) or cut off
from the metadata store. The latter two are noticed when its session ends. Also prints the memory of
the three idle brokers.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import confluent_kafka

from floodmark.client import Producer
from floodmark.testing import Cluster

INTERVAL_S = 0.005
STEADY_S = 1.0
SETTLED = 50
"""So many acknowledgements after the kill end the wait."""
LONGEST_PAUSE_S = 150
"""A client may wait for a paused broker as long as its own request timeout says."""


class Sender(Protocol):
    """Sends until it is stopped; `acknowledged` are the times of the acknowledgements."""

    acknowledged: list[float]

    def stop(self) -> None: ...


class Librdkafka:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[float] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=self._done)
            self._producer.poll(INTERVAL_S)
        self._producer.flush()

    def _done(self, error: object, _: object) -> None:
        assert error is None, error
        self.acknowledged.append(time.monotonic())


class Floodmark:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[float] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        async with Producer(self._bootstrap) as producer, asyncio.TaskGroup() as sending:
            while not self._stop.is_set():
                sending.create_task(self._send(producer))
                await asyncio.sleep(INTERVAL_S)

    async def _send(self, producer: Producer) -> None:
        await producer.send_and_wait(self._topic, b"x" * 100, partition=0)
        self.acknowledged.append(time.monotonic())


CLIENTS: dict[str, Callable[[str, str], Sender]] = {
    "Floodmark's client": Floodmark,
    "librdkafka": Librdkafka,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--how", choices=["kill", "stop", "pause", "cut"], default="kill")
    parser.add_argument("--session-ms", type=int, default=6000)
    arguments = parser.parse_args()
    with Cluster(settings={"zookeeper.session.timeout.ms": arguments.session_ms}) as cluster:
        time.sleep(10 * STEADY_S)
        memory = sum(resident_bytes(cluster.pid(broker)) for broker in cluster.ids)
        print(f"three idle brokers: {memory / 1e6:.0f} MB resident")
        for name, client in CLIENTS.items():
            pauses = [measure(cluster, client, arguments.how) for _ in range(arguments.kills)]
            print(
                f"{name}: {arguments.how} of a leader, {len(pauses)} times: median "
                f"{statistics.median(pauses):.2f} s, worst {max(pauses):.2f} s"
            )


def measure(cluster: Cluster, client: Callable[[str, str], Sender], how: str) -> float:
    topic = cluster.create_topic()
    sender = client(cluster.bootstrap_servers, topic)
    try:
        time.sleep(STEADY_S)
        leader = cluster.leader_of(topic)
        begin = time.monotonic()
        strike(cluster, leader, how)
        if how in ("pause", "cut"):
            # Until its session ends, a leader that is only cut off goes on.
            wait_until_led_by_another(cluster, topic, leader)
        wait_for_more(sender)
    finally:
        sender.stop()
    bring_back(cluster, leader, how)
    cluster.wait_until_in_sync(topic)
    times = [begin, *(one for one in sender.acknowledged if one > begin)]
    return max(after - before for before, after in pairwise(times))


def strike(cluster: Cluster, leader: int, how: str) -> None:
    if how == "cut":
        cluster.cut_off(leader, from_="store")
    else:
        {"kill": cluster.kill, "stop": cluster.stop, "pause": cluster.pause}[how](leader)


def bring_back(cluster: Cluster, leader: int, how: str) -> None:
    if how == "cut":
        cluster.heal()
    elif how == "pause":
        cluster.resume(leader)
        cluster.wait_until_complete()
    else:
        cluster.start(leader)


def wait_until_led_by_another(cluster: Cluster, topic: str, leader: int) -> None:
    deadline = time.monotonic() + LONGEST_PAUSE_S
    while cluster.leader_of(topic) == leader:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{leader} still leads after {LONGEST_PAUSE_S} s")
        time.sleep(INTERVAL_S)


def wait_for_more(sender: Sender) -> None:
    """Until it is served again: acknowledgements that came before the kill do not count."""
    goal = len(sender.acknowledged) + SETTLED
    deadline = time.monotonic() + LONGEST_PAUSE_S
    while len(sender.acknowledged) < goal:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no acknowledgement within {LONGEST_PAUSE_S} s")
        time.sleep(INTERVAL_S)


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has ended")


if __name__ == "__main__":
    main()
