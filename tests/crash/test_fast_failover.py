"""kill -9 of a leader, and of one that is the controller: writing goes on before a session ends."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

import crash_kit.patient_sessions
from floodmark.client import Producer
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from kit.cluster import IDS, ProcessCluster

TOPIC = "replicated"
SESSION_MS = 60_000
LONGEST_FAILOVER_S = 10.0
"""Far below the session, and far above the half second that it takes on a quiet machine."""

PROGRAM = [sys.executable, crash_kit.patient_sessions.__file__]
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "min.insync.replicas": "2",
    # A follower that is gone must not be waited for either.
    "replica.lag.time.max.ms": str(SESSION_MS),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "is_controller", [False, True], ids=["not the controller", "the controller"]
)
def test_writing_goes_on_before_the_session_of_the_dead_leader_ends(
    tmp_path: Path, is_controller: bool
) -> None:
    cluster = ProcessCluster(tmp_path, SETTINGS, PROGRAM)
    try:
        taken_s = asyncio.run(failover(cluster, is_controller))
        assert taken_s < LONGEST_FAILOVER_S
        print(f"writing went on after {taken_s:.2f} s")
    finally:
        for process in cluster.processes.values():
            process.kill()


async def failover(cluster: ProcessCluster, is_controller: bool) -> float:
    """Kills a broker, and returns the seconds until each partition takes a record again."""
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 6, 3)])
        controller = (await admin.describe_cluster()).controller_id
    async with Producer(cluster.bootstrap) as producer:
        await write_everywhere(producer)
        victim = controller if is_controller else next(i for i in IDS if i != controller)
        cluster.processes[victim].kill()
        began = time.monotonic()
        await write_everywhere(producer)
        return time.monotonic() - began


async def write_everywhere(producer: Producer) -> None:
    async with asyncio.timeout(SESSION_MS / 1000):
        await asyncio.gather(
            *(producer.send_and_wait(TOPIC, b"x", partition=number) for number in range(6))
        )
