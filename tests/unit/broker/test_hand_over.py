"""A broker that stops asks the controller until nothing is left for others to take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from floodmark.broker.broker import Broker
from floodmark.broker.hand_over import HandOver, leads_for_others
from floodmark.client.admin.admin import Admin
from floodmark.client.admin.admin_types import NewTopic
from floodmark.clock import SystemClock
from floodmark.config import BrokerConfig
from floodmark.controller.decision import ControllerUnavailable
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import BrokerInfo, ImageChange, MetadataImage
from floodmark.network.server import NetworkServer
from floodmark.wire.errors import ErrorCode
from kit.thread_cluster import IDS, Cluster
from kit.waiting import wait_for

Answer = list[tuple[str, int]] | Exception


class Asked:
    """The controller, with the answers that a test gives it."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.times = 0
        self.on_asked: Callable[[], None] = lambda: None

    async def controlled_shutdown(self, timeout_ms: float) -> list[tuple[str, int]]:
        self.times += 1
        self.on_asked()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def others_told(self, timeout_s: float) -> None:
        pass


def hand_over(asked: Asked, *brokers: int, **settings: str) -> tuple[HandOver, MetadataCache]:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    metadata = MetadataCache(BrokerConfig.load(names))
    known = {number: BrokerInfo(number, 100, {}) for number in brokers}
    metadata.image = MetadataImage(brokers=known)
    controller: Any = asked
    return HandOver(1, metadata, controller, SystemClock()), metadata


async def test_one_answer_without_remaining_partitions_is_enough() -> None:
    asked = Asked([])
    assert await hand_over(asked, 1, 2)[0].run()
    assert asked.times == 1


async def test_nobody_is_asked_by_a_broker_that_is_alone_or_told_not_to() -> None:
    asked = Asked()
    assert not await hand_over(asked, 1)[0].run()
    disabled = {"controlled_shutdown_enable": "false"}
    assert not await hand_over(asked, 1, 2, **disabled)[0].run()
    assert not await hand_over(asked, 1, 2, controlled_shutdown_max_retries="0")[0].run()
    assert asked.times == 0


async def test_it_asks_again_when_the_cluster_changes() -> None:
    no_controller = ControllerUnavailable(ErrorCode.NOT_CONTROLLER, "none")
    asked = Asked([("t", 0)], no_controller, [])
    work, metadata = hand_over(asked, 1, 2)
    epochs = iter(range(200, 300))

    def change() -> None:
        another = ImageChange(brokers={2: BrokerInfo(2, next(epochs), {})})
        loop = asyncio.get_running_loop()
        tasks.append(loop.create_task(metadata.publish(metadata.image.apply(another))))

    tasks: list[asyncio.Task[None]] = []
    asked.on_asked = change
    assert await asyncio.wait_for(work.run(), 5), "long before the first backoff is over"
    assert asked.times == 3


async def test_it_stops_anyway_when_the_retries_are_over() -> None:
    asked = Asked(*([("t", 0)] for _ in range(3)))
    quick = {
        "controlled_shutdown_retry_backoff_ms": "100",
        "controlled_shutdown_max_retries": "2",
    }
    work, _ = hand_over(asked, 1, 2, **quick)
    assert not await work.run()
    assert 1 <= asked.times <= 3


@pytest.mark.parametrize("is_controller", [False, True])
async def test_the_others_lead_before_the_broker_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_controller: bool
) -> None:
    led_at_the_end: list[bool] = []
    stop_accepting = NetworkServer.stop_accepting

    def noted(network: NetworkServer) -> None:
        led_at_the_end.extend(
            leads_for_others(broker.metadata.image, broker_id)
            for broker_id, broker in brokers.items()
            if broker.network is network
        )
        stop_accepting(network)

    monkeypatch.setattr(NetworkServer, "stop_accepting", noted)
    brokers: dict[int, Broker] = {}
    cluster = Cluster(tmp_path)
    try:
        cluster.wait_until_agreed()
        async with Admin(cluster.brokers[1].bootstrap_servers) as admin:
            await admin.create_topic(NewTopic("t", 6, 3))
        cluster.wait_until_agreed()
        brokers.update((i, cluster.brokers[i].broker) for i in IDS)
        first = cluster.controller
        stopping = first if is_controller else next(i for i in IDS if i != first)
        cluster.brokers[stopping].stop()
        assert led_at_the_end == [False]
        cluster.wait_until_agreed()
        partitions = cluster.image(cluster.controller).topics["t"].partitions
        assert all(p.leader in cluster.running and stopping not in p.isr for p in partitions)
        cluster.brokers[stopping].start()
        cluster.wait_until_agreed()
        assert cluster.image(cluster.controller).is_active(stopping)
    finally:
        cluster.close()


async def test_leaders_come_back_to_a_broker_that_was_stopped(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, leader_imbalance_check_interval_seconds="1")
    try:
        cluster.wait_until_agreed()
        async with Admin(cluster.brokers[1].bootstrap_servers) as admin:
            await admin.create_topic(NewTopic("t", assignments={0: [2, 3], 1: [2, 1]}))
        cluster.wait_until_agreed()
        cluster.brokers[2].stop()
        cluster.brokers[2].start()
        wait_for(lambda: all(p.leader == 2 for p in cluster.image(1).topics["t"].partitions))
        cluster.wait_until_agreed()
    finally:
        cluster.close()
