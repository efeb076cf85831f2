"""Brokers of three that are stopped in order, one after the other, under load.

Their leaderships are handed over first: no request of a producer that retries fails, and nothing
waits for a session to end.
"""

import asyncio
import time
from pathlib import Path

import pytest

from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from kit.cluster import IDS, ProcessCluster

TOPIC = "handed-over"
PARTITIONS = 6
SEED = 7
LONGEST_STOP_S = 10


@pytest.mark.timeout(300)
def test_a_rolling_restart_loses_no_request_of_a_producer_that_retries(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path)
    load = Load(cluster.bootstrap, TOPIC, PARTITIONS, SEED)
    checker = Checker(TOPIC, PARTITIONS, SEED)
    try:
        asyncio.run(create_topic(cluster.bootstrap))
        load.start()
        for broker_id in IDS:
            before = len(load.acknowledged())
            stop(cluster, broker_id)
            led_by = {one.leader for one in cluster.describe(TOPIC).partitions.values()}
            assert led_by <= set(IDS) - {broker_id}
            cluster.start(broker_id)
            cluster.wait_until_up()
            cluster.wait_until_in_sync(TOPIC)
            assert not load.problems
            assert len(load.acknowledged()) > before
        load.finish()
        assert not load.problems
        asyncio.run(checker.check_all(cluster.leaders(TOPIC), load))
    finally:
        load.finish()
        cluster.stop()


@pytest.mark.timeout(120)
def test_brokers_that_stop_together_do_not_wait_for_each_other(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path)
    try:
        asyncio.run(create_topic(cluster.bootstrap))
        began = time.monotonic()
        for process in cluster.processes.values():
            process.terminate()
        codes = [process.wait() for process in cluster.processes.values()]
        assert codes == [0, 0, 0]
        assert time.monotonic() - began < LONGEST_STOP_S
        for process in cluster.processes.values():
            assert "stopped in order" in process.output()
    finally:
        cluster.stop()


def stop(cluster: ProcessCluster, broker_id: int) -> None:
    process = cluster.processes[broker_id]
    began = time.monotonic()
    assert process.stop() == 0
    assert time.monotonic() - began < LONGEST_STOP_S
    output = process.output()
    assert "stopped in order" in output
    assert "could not be handed over" not in output


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        configs = {"min.insync.replicas": "2"}
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS, len(IDS), configs=configs))
