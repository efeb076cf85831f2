"""How soon 1,000 partitions have other leaders after kill -9: Apache Kafka 4.3.0 and Floodmark.

`python bench/failover_of_many.py [--target floodmark] [--partitions 1000]`. Three brokers of each
kind in turn, three replicas. Each broker is killed once and started again. Measured from the kill
until Metadata of a broker that lives names a live leader for every partition.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from cluster import IDS, TARGETS, Cluster, running
from servers import new_name

from floodmark.client import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.client.cluster.connection import Connection
from floodmark.client.settings import ClientSettings
from floodmark.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from floodmark.wire.messages.metadata import MetadataResponsePartition as Partition

POLL_S = 0.02
PATIENCE_S = 180
PATIENT = ClientSettings(request_timeout_ms=PATIENCE_S * 1000)


async def create(cluster: Cluster, topic: str, partitions: int) -> None:
    async with Admin(f"127.0.0.1:{cluster.ports[IDS[0]]}", PATIENT) as admin:
        while True:
            if len((await admin.describe_cluster()).brokers) == len(IDS):
                break
            await asyncio.sleep(POLL_S)
        await admin.create_topic(NewTopic(topic, partitions, len(IDS)))


async def until(
    cluster: Cluster, broker: int, topic: str, wanted: Callable[[Partition], bool]
) -> None:
    """Asks this broker until it says so of every partition."""
    connection = await Connection.open("127.0.0.1", cluster.ports[broker])
    question = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                (described,) = (await connection.request(question)).topics
                if all(wanted(partition) for partition in described.partitions):
                    return
                await asyncio.sleep(POLL_S)
    finally:
        await connection.close()


def in_sync(partition: Partition) -> bool:
    return len(partition.isr_nodes) == len(IDS)


def failover(cluster: Cluster, topic: str, victim: int) -> float:
    survivor = next(broker for broker in IDS if broker != victim)
    begin = time.monotonic()
    cluster.processes[victim].kill()
    asyncio.run(until(cluster, survivor, topic, lambda one: one.leader_id not in (-1, victim)))
    return time.monotonic() - begin


def measure(cluster: Cluster, partitions: int) -> list[float]:
    topic = new_name()
    asyncio.run(create(cluster, topic, partitions))
    seconds = []
    for victim in IDS:
        asyncio.run(until(cluster, victim, topic, in_sync))
        seconds.append(failover(cluster, topic, victim))
        cluster.start(victim)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one")
    parser.add_argument("--partitions", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
        for name in arguments.target or list(TARGETS):
            with running(name, Path(folder) / name) as cluster:
                seconds = measure(cluster, arguments.partitions)
            each = ", ".join(f"{one:.2f}" for one in seconds)
            print(f"{name}: {statistics.median(seconds):.2f} s in the median ({each})", flush=True)


if __name__ == "__main__":
    main()
