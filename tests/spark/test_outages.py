"""Brokers go away at any moment of a running pipeline: no output stops, each row comes once.

FLOODMARK_SPARK_OUTAGES says how often (1 in CI, 10 with make soak), and
FLOODMARK_SPARK_OUTAGE_SECONDS for how long (12 in CI, 60 with make soak).
"""

import os
import random
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from floodmark.testing import Cluster
from kit.broker import start_floodmark
from kit.copying import Copying
from kit.pipeline_thread import PipelineThread
from kit.waiting import wait_for

OUTAGES = int(os.environ.get("FLOODMARK_SPARK_OUTAGES", "1"))
# Longer than one attempt of any connection or request takes.
OUTAGE_S = float(os.environ.get("FLOODMARK_SPARK_OUTAGE_SECONDS", "12"))
# A batch of the copying pipeline takes about this long: an outage begins anywhere in one.
BATCH_S = 0.5


def reach_a_moment(copying: Copying, running: PipelineThread, chance: random.Random) -> None:
    before = copying.written()
    copying.feed(500)
    wait_for(copying.wrote_more(running, before + chance.randrange(150)), 180)
    threading.Event().wait(chance.random() * BATCH_S)


def end_in_order(copying: Copying, running: PipelineThread, spark: SparkSession) -> None:
    before = copying.written()
    copying.feed(100)
    wait_for(copying.wrote_more(running, before), 180)
    running.stop()
    copying.runner(spark).run(once=True)
    copying.check(spark)


@pytest.mark.timeout(400 + OUTAGES * (60 + int(OUTAGE_S)))
def test_outages_at_random_moments_stop_no_output(spark: SparkSession, tmp_path: Path) -> None:
    broker = start_floodmark(tmp_path / "broker")
    chance = random.Random(OUTAGES)
    try:
        copying = Copying(broker.bootstrap, tmp_path, rows=0)
        with PipelineThread(copying.runner(spark)) as running:
            for _ in range(OUTAGES):
                reach_a_moment(copying, running, chance)
                broker.process.kill()
                threading.Event().wait(OUTAGE_S)
                assert running.is_running(), running.output()
                broker = start_floodmark(tmp_path / "broker", port=broker.port)
            end_in_order(copying, running, spark)
    finally:
        broker.process.stop()


@pytest.mark.timeout(600)
def test_a_restart_of_every_broker_of_a_cluster_stops_no_output(
    spark: SparkSession, floodmark_cluster: Cluster, tmp_path: Path
) -> None:
    chance = random.Random(3)
    copying = Copying(floodmark_cluster.bootstrap_servers, tmp_path, rows=0)
    with PipelineThread(copying.runner(spark)) as running:
        for broker in floodmark_cluster.ids:
            reach_a_moment(copying, running, chance)
            floodmark_cluster.kill(broker)
            reach_a_moment(copying, running, chance)
            floodmark_cluster.start(broker)
            floodmark_cluster.wait_until_complete()
        end_in_order(copying, running, spark)
