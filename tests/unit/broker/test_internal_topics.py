"""How many replicas the topics of the coordinators get."""

from __future__ import annotations

from pathlib import Path

import pytest

from floodmark.broker.coordinators import TOGETHER_MS
from floodmark.coordinators.ports import CoordinatorError
from floodmark.metadata.image import CONSUMER_OFFSETS_TOPIC
from floodmark.testing import VirtualClock
from floodmark.testing.broker_thread import BrokerThread
from floodmark.wire.errors import ErrorCode

FACTOR = "offsets.topic.replication.factor"


def test_the_default_takes_the_brokers_there_are(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as floodmark:
        floodmark.call(floodmark.broker.coordination.groups.log.ensure_topic())
        topic = floodmark.broker.services.image.topics[CONSUMER_OFFSETS_TOPIC]
        assert {partition.replicas for partition in topic.partitions} == {(1,)}


def test_a_factor_that_is_set_waits_for_as_many_brokers(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, {FACTOR: "3"}) as floodmark:
        with pytest.raises(CoordinatorError, match="only 1 broker") as refused:
            floodmark.call(floodmark.broker.coordination.groups.log.ensure_topic())
        assert refused.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert CONSUMER_OFFSETS_TOPIC not in floodmark.broker.services.image.topics


def test_the_default_waits_a_moment_for_brokers_that_start_together(tmp_path: Path) -> None:
    clock = VirtualClock()
    settings = {"floodmark.cluster.dir": str(tmp_path / "cluster")}
    with BrokerThread(tmp_path / "data", settings, clock=clock) as floodmark:
        log = floodmark.broker.coordination.groups.log
        with pytest.raises(CoordinatorError, match="only 1 broker"):
            floodmark.call(log.ensure_topic())
        clock.advance(TOGETHER_MS)
        floodmark.call(log.ensure_topic())
        assert CONSUMER_OFFSETS_TOPIC in floodmark.broker.services.image.topics
