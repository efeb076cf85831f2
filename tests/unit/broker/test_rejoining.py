"""A broker that has lost its session registers again, whatever the store does meanwhile."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.config import BrokerConfig
from floodmark.metadata import paths
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import (
    BrokerInfo,
    Endpoint,
    ImageChange,
    PartitionImage,
    TopicImage,
)
from floodmark.metadata.store import (
    Create,
    Operation,
    Outcome,
    SessionEvent,
    SessionWatcher,
    StoreUnavailable,
)
from floodmark.testing.memory_store import MemoryStore
from floodmark.testing.virtual_clock import VirtualClock
from kit.waiting import eventually

ME = BrokerInfo(1, 0, {"PLAINTEXT": Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")})
NODE = paths.broker_path(1)


class LossyStore(MemoryStore):
    """Ends sessions when told to. The answers to the next registrations are lost, with what was
    asked for (`refused`) or after it was done (`unanswered`). `unread`: the next readings of all
    topics fail."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers: list[SessionWatcher] = []
        self.refused = self.unanswered = self.unread = 0

    def watch_session(self, watcher: SessionWatcher) -> None:
        self._watchers.append(watcher)

    async def end_session(self) -> None:
        await self.close()
        for watcher in self._watchers:
            watcher(SessionEvent.LOST)

    async def children(self, path: str) -> list[str]:
        if path == paths.TOPICS and self.unread:
            self.unread -= 1
            raise StoreUnavailable(path, "the connection is lost")
        return await super().children(path)

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        registers = any(isinstance(one, Create) and one.path == NODE for one in operations)
        if registers and self.refused:
            self.refused -= 1
            raise StoreUnavailable("/", "the connection is lost")
        outcomes = await super().multi(operations)
        if registers and self.unanswered:
            self.unanswered -= 1
            raise StoreUnavailable("/", "the connection is lost")
        return outcomes


@pytest.fixture
async def member() -> AsyncIterator[ClusterMembership]:
    store = LossyStore()
    cache = MetadataCache(BrokerConfig.load({}))
    member = ClusterMembership(1, store, cache, VirtualClock(), no_other, random.Random(7))
    await member.join(ME)
    yield member
    await member.leave()
    store.dispose()


async def no_other(broker_id: int, instruction: object) -> None:
    pytest.fail(f"broker {broker_id} is told something, and there is none")


@pytest.mark.parametrize("answers", ["refused", "unanswered"])
async def test_a_registration_whose_answer_is_lost_is_not_given_up(
    member: ClusterMembership, answers: str
) -> None:
    store = member._store
    assert isinstance(store, LossyStore)
    epoch = member.fence.broker_epoch
    setattr(store, answers, 2)
    await store.end_session()
    await eventually(member.is_registered)
    assert member.fence.broker_epoch > epoch
    await eventually(lambda: member.controller.is_active)


async def test_a_registration_that_fails_for_good_is_begun_again(
    member: ClusterMembership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as long as a session may survive its process, it begins from the start."""
    store = member._store
    assert isinstance(store, LossyStore)
    monkeypatch.setattr("floodmark.metadata.registration.LONGEST_WAIT_MS", -1)
    store.refused = 3
    await store.end_session()
    await eventually(member.is_registered)


async def test_a_topic_deleted_without_a_session_is_forgotten_whatever_cannot_be_read() -> None:
    """The controller announces no deletion twice."""
    store = LossyStore()
    await store.open()
    await store.multi([Create(paths.CONTROLLER, paths.encode_controller(2, 0))])
    cache = MetadataCache(BrokerConfig.load({}))
    member = ClusterMembership(1, store, cache, VirtualClock(), no_other, random.Random(7))
    await member.join(ME)
    await eventually(lambda: not member._changed.is_set())
    deleted = TopicImage("deleted", UUID(int=1), (PartitionImage(2, 0, 0, (2,), (2,)),))
    await cache.publish(cache.image.apply(ImageChange(topics={"deleted": deleted})))
    store.unread = 1
    await store.end_session()
    await eventually(lambda: not store.unread and "deleted" not in cache.image.topics)
    await member.leave()
    store.dispose()
