"""kill -9 of a leader, and of one that is the controller: writing goes on before a session ends."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

import crash_kit.patient_sessions
from floodmark.client import Producer
from floodmark.testing import Cluster

TOPIC = "replicated"
SESSION_MS = 60_000
LONGEST_FAILOVER_S = 10.0
"""Far below the session, and far above the half second that it takes on a quiet machine."""

SETTINGS = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    # A follower that is gone must not be waited for either.
    "replica.lag.time.max.ms": SESSION_MS,
}


class PatientCluster(Cluster):
    program = (sys.executable, crash_kit.patient_sessions.__file__)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "is_controller", [False, True], ids=["not the controller", "the controller"]
)
def test_writing_goes_on_before_the_session_of_the_dead_leader_ends(
    tmp_path: Path, is_controller: bool
) -> None:
    with PatientCluster(tmp_path, SETTINGS) as cluster:
        cluster.create_topic(TOPIC, 6)
        taken_s = asyncio.run(failover(cluster, is_controller))
        assert taken_s < LONGEST_FAILOVER_S
        print(f"writing went on after {taken_s:.2f} s")


async def failover(cluster: Cluster, is_controller: bool) -> float:
    """Kills a broker, and returns the seconds until each partition takes a record again."""
    controller = cluster.controller()
    async with Producer(cluster.bootstrap_servers) as producer:
        await write_everywhere(producer)
        victim = controller if is_controller else next(i for i in cluster.ids if i != controller)
        cluster.kill(victim)
        began = time.monotonic()
        await write_everywhere(producer)
        return time.monotonic() - began


async def write_everywhere(producer: Producer) -> None:
    async with asyncio.timeout(SESSION_MS / 1000):
        await asyncio.gather(
            *(producer.send_and_wait(TOPIC, b"x", partition=number) for number in range(6))
        )
