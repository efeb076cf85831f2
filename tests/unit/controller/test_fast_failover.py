"""Brokers whose process is gone lose their leaders at once; their sessions may end later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.config import BrokerConfig
from floodmark.controller import liveness, membership
from floodmark.controller.decision import View
from floodmark.controller.topics import NewTopic
from floodmark.metadata import paths
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import BrokerInfo, Endpoint, MetadataImage, PartitionImage
from floodmark.metadata.store import Create, Delete
from floodmark.testing.memory_store import MemoryStore
from floodmark.testing.virtual_clock import VirtualClock
from floodmark.wire.errors import ErrorCode
from floodmark.wire.messages.leader_and_isr import LeaderAndIsrResponse
from floodmark.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kit.waiting import eventually


def broker(broker_id: int, broker_epoch: int = -1) -> BrokerInfo:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id, "PLAINTEXT")
    return BrokerInfo(broker_id, broker_epoch, {"PLAINTEXT": endpoint})


class OtherProcesses:
    """The other brokers: who is gone, who answers, and what they were told."""

    def __init__(self) -> None:
        self._gone: dict[int, asyncio.Event] = {}
        self.answers: dict[int, ErrorCode] = {}
        self.greeted: list[tuple[int, int]] = []
        self.watched: list[int] = []

    async def until_gone(self, host: str, port: int) -> None:
        self.watched.append(port - 9000)
        await self._event(port - 9000).wait()

    def kill(self, broker_id: int) -> None:
        self.answers[broker_id] = ErrorCode.STALE_BROKER_EPOCH
        self._event(broker_id).set()

    def come_up(self, broker_id: int) -> None:
        self._gone[broker_id] = asyncio.Event()

    def _event(self, broker_id: int) -> asyncio.Event:
        return self._gone.setdefault(broker_id, asyncio.Event())

    async def send(self, broker_id: int, request: object) -> object:
        if isinstance(request, UpdateMetadataRequest):
            self.greeted.append((broker_id, request.broker_epoch))
            return UpdateMetadataResponse(error_code=self.answers.get(broker_id, ErrorCode.NONE))
        return LeaderAndIsrResponse()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    yield store
    store.dispose()


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> OtherProcesses:
    monkeypatch.setattr(liveness, "QUESTION_INTERVAL_S", 0.01)
    return OtherProcesses()


@pytest.fixture
async def member(store: MemoryStore, processes: OtherProcesses) -> Iterator[ClusterMembership]:
    """Broker 1, the controller."""
    cache = MetadataCache(BrokerConfig.load({}))
    member = ClusterMembership(
        *(1, store, cache, VirtualClock(), processes.send, random.Random(7)),
        until_gone=processes.until_gone,
    )
    await member.join(broker(1))
    yield member
    await member.leave()


async def register(store: MemoryStore, broker_id: int) -> None:
    await store.multi(
        [Create(paths.broker_path(broker_id), paths.encode_broker(broker(broker_id), 0))]
    )


async def unregister(store: MemoryStore, broker_id: int) -> None:
    await store.multi([Delete(paths.broker_path(broker_id))])


def partition(member: ClusterMembership) -> PartitionImage:
    found = member._cache.image.partition("t", 0)
    assert found is not None
    return found


def is_live(member: ClusterMembership, broker_id: int) -> bool:
    return member._cache.image.is_live(broker_id)


@pytest.fixture
async def led_by_two(
    store: MemoryStore, member: ClusterMembership, processes: OtherProcesses
) -> ClusterMembership:
    """Broker 2 is registered, watched, and leads a partition."""
    await register(store, 2)
    await eventually(lambda: 2 in processes.watched)
    await member.controller.create_topics([NewTopic("t", assignments=[(0, [2, 1])])])
    assert partition(member).leader == 2
    return member


async def test_leaders_move_while_the_session_of_the_dead_broker_goes_on(
    led_by_two: ClusterMembership, processes: OtherProcesses, store: MemoryStore
) -> None:
    processes.kill(2)
    await eventually(lambda: partition(led_by_two).leader == 1)
    assert partition(led_by_two).isr == (1,)
    assert await store.get(paths.broker_path(2)) is not None
    assert not is_live(led_by_two, 2)


async def test_the_registration_that_is_left_does_not_bring_a_dead_broker_back(
    led_by_two: ClusterMembership, processes: OtherProcesses, store: MemoryStore
) -> None:
    processes.kill(2)
    await eventually(lambda: partition(led_by_two).leader == 1)
    await register(store, 3)
    await eventually(lambda: is_live(led_by_two, 3))
    assert not is_live(led_by_two, 2)


async def test_the_next_controller_knows_who_is_dead(
    led_by_two: ClusterMembership, processes: OtherProcesses, store: MemoryStore
) -> None:
    processes.kill(2)
    await eventually(lambda: partition(led_by_two).leader == 1)
    await led_by_two.controller.resign()
    await store.multi([Delete(paths.CONTROLLER)])
    await eventually(lambda: led_by_two.controller.is_active)
    assert not is_live(led_by_two, 2)


async def test_a_new_process_of_the_dead_broker_is_welcome_at_once(
    led_by_two: ClusterMembership, processes: OtherProcesses, store: MemoryStore
) -> None:
    processes.kill(2)
    await eventually(lambda: not is_live(led_by_two, 2))
    processes.come_up(2)
    await unregister(store, 2)
    await register(store, 2)
    await eventually(lambda: is_live(led_by_two, 2))
    assert partition(led_by_two).leader == 1


async def test_a_broker_that_was_taken_for_dead_and_answers_is_taken_back(
    led_by_two: ClusterMembership, processes: OtherProcesses
) -> None:
    processes.kill(2)
    await eventually(lambda: partition(led_by_two).leader == 1)
    before = partition(led_by_two).partition_epoch
    processes.come_up(2)
    processes.answers[2] = ErrorCode.NONE
    await eventually(lambda: is_live(led_by_two, 2))
    assert partition(led_by_two).partition_epoch > before


async def test_the_verdict_is_stored_when_the_store_is_back(
    led_by_two: ClusterMembership, processes: OtherProcesses, store: MemoryStore
) -> None:
    store.fail_next = 1
    processes.kill(2)
    await eventually(lambda: partition(led_by_two).leader == 1)


async def test_a_dead_controller_is_replaced_before_its_session_ends(
    store: MemoryStore, member: ClusterMembership, processes: OtherProcesses
) -> None:
    await register(store, 2)
    await eventually(lambda: is_live(member, 2))
    await member.controller.resign()
    await store.multi(
        [Delete(paths.CONTROLLER), Create(paths.CONTROLLER, paths.encode_controller(2, 0))]
    )
    await eventually(lambda: processes.watched.count(2) == 2)
    processes.kill(2)
    await eventually(lambda: member.controller.is_active and not is_live(member, 2))
    assert await store.get(paths.broker_path(2)) is not None


def view(*brokers: BrokerInfo) -> View:
    image = MetadataImage(brokers={one.id: one for one in brokers})
    return View(image, BrokerConfig.load({}), lambda _: 0, lambda: None)


def test_proof_about_an_earlier_process_says_nothing_about_the_present_one() -> None:
    decision = membership.broker_died(view(broker(2, broker_epoch=8)), 2, 7)
    assert not decision.operations and not decision.change.brokers


def test_an_answer_under_another_epoch_takes_nobody_back() -> None:

    dead = replace(broker(2, broker_epoch=8), is_fenced=True)
    decision = membership.broker_lives(view(dead), broker(2, broker_epoch=9))
    assert not decision.operations and not decision.change.brokers


async def test_a_broker_that_has_asked_to_stop_is_not_mourned(
    led_by_two: ClusterMembership, processes: OtherProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "floodmark.controller.liveness")
    epoch = led_by_two._cache.image.brokers[2].broker_epoch
    await led_by_two.controller.controlled_shutdown(2, epoch)
    processes.kill(2)
    await eventually(lambda: not is_live(led_by_two, 2))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("INFO", "broker 2 has stopped")
    ]
