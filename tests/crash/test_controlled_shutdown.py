"""Brokers of three that are stopped in order, one after the other, under load.

Their leaderships are handed over first: no request of a producer that retries fails, and nothing
waits for a session to end.
"""

import time
from pathlib import Path

import pytest

from crash_kit.at_leaders import check_all
from crash_kit.checker import Checker
from crash_kit.load import Load
from floodmark.testing import Cluster
from kit.waiting import wait_for

TOPIC = "handed-over"
PARTITIONS = 6
SEED = 7
LONGEST_STOP_S = 10


@pytest.mark.timeout(300)
def test_a_rolling_restart_loses_no_request_of_a_producer_that_retries(tmp_path: Path) -> None:
    checker = Checker(TOPIC, PARTITIONS, SEED)
    with Cluster(tmp_path) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        load = Load(cluster.bootstrap_servers, TOPIC, PARTITIONS, SEED)
        load.start()
        try:
            for broker in cluster.ids:
                before = len(load.acknowledged())
                stop(cluster, broker)
                leaders = {cluster.leader_of(TOPIC, index) for index in range(PARTITIONS)}
                assert leaders <= set(cluster.ids) - {broker}
                cluster.start(broker)
                cluster.wait_until_in_sync(TOPIC)
                assert not load.problems
                wait_for(lambda before=before: len(load.acknowledged()) > before)
        finally:
            load.finish()
        assert not load.problems
        check_all(cluster, checker, load)


@pytest.mark.timeout(120)
def test_brokers_that_stop_together_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        stop(cluster, *cluster.ids)


def stop(cluster: Cluster, *brokers: int) -> None:
    began = time.monotonic()
    cluster.stop(*brokers)
    assert time.monotonic() - began < LONGEST_STOP_S
    for broker in brokers:
        output = cluster.log_file(broker).read_text()
        assert "stopped cleanly" in output
        assert "without having handed over" not in output
