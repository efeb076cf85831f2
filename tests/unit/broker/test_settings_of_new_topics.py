"""The settings of a new topic, on a broker that is not the controller and reads them itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from uuid import UUID

import pytest

from floodmark.broker.cluster_membership import ClusterMembership
from floodmark.config import BrokerConfig
from floodmark.metadata import paths
from floodmark.metadata.cache import MetadataCache
from floodmark.metadata.image import BrokerInfo, ConfigResource, ImageChange, TopicImage
from floodmark.metadata.loader import load_image
from floodmark.metadata.store import Create, Node
from floodmark.testing.memory_store import MemoryStore
from floodmark.testing.virtual_clock import VirtualClock

TOPIC = ConfigResource("topic", "t")
SETTINGS = {"max.message.bytes": "12345"}
NEW_TOPIC = paths.encode_topic(TopicImage("t", UUID(int=7), ()))


class SlowStore(MemoryStore):
    """Answers reads of all settings when `goes_on` is set, with what it had when it was asked. What
    was written is there for others, as on a server of ZooKeeper that lags, after `synchronize`."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on, self.was_asked = asyncio.Event(), asyncio.Event()
        self.goes_on.set()
        self.lags = False

    async def synchronize(self) -> None:
        self.lags = False

    async def get(self, path: str) -> Node | None:
        return None if self.lags else await super().get(path)

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        found = await super().read_tree(path)
        if path == paths.CONFIG:
            self.was_asked.set()
            await self.goes_on.wait()
        return found


@pytest.fixture
async def store() -> AsyncIterator[SlowStore]:
    store = SlowStore()
    yield store
    store.dispose()


@pytest.fixture
async def cache() -> MetadataCache:
    return MetadataCache(BrokerConfig.load({}))


@pytest.fixture
async def member(store: SlowStore, cache: MetadataCache) -> AsyncIterator[ClusterMembership]:
    async def send(_: int, __: object) -> None:
        pytest.fail("there is nobody else")

    member = ClusterMembership(1, store, cache, VirtualClock(), send, random.Random(7))
    await member.join(BrokerInfo(1, 0, {}))
    yield member
    await member.leave()


async def test_settings_that_were_being_read_do_not_replace_those_of_a_new_topic(
    member: ClusterMembership, store: SlowStore, cache: MetadataCache
) -> None:
    store.goes_on.clear()
    store.was_asked.clear()
    reading = asyncio.create_task(member._read_settings())
    await store.was_asked.wait()
    await cache.publish(cache.image.apply(ImageChange(configs={TOPIC: SETTINGS})))
    store.goes_on.set()
    await reading
    assert cache.image.config(*TOPIC) == SETTINGS


async def test_they_are_read_from_a_server_that_has_caught_up(
    member: ClusterMembership, store: SlowStore
) -> None:
    await store.multi([Create(paths.config_path(TOPIC), paths.encode_config(SETTINGS))])
    store.lags = True
    assert await member.settings_of(["t"]) == {TOPIC: SETTINGS}


class BusyStore(MemoryStore):
    """Somebody creates a topic after the first read of many nodes."""

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        found = await super().read_tree(path)
        if await self.get(paths.topic_path("t")) is None:
            settings = Create(paths.config_path(TOPIC), paths.encode_config(SETTINGS))
            await self.multi([settings, Create(paths.topic_path("t"), NEW_TOPIC)])
        return found


async def test_a_starting_broker_knows_no_topic_without_its_settings() -> None:
    store = BusyStore()
    await store.open()
    parents = ["/brokers", paths.TOPICS, paths.CONFIG, f"{paths.CONFIG}/topics"]
    await store.multi([Create(path) for path in parents])
    image = await load_image(store)
    assert all(image.config("topic", name) for name in image.topics)
    assert (await load_image(store)).config(*TOPIC) == SETTINGS
    await store.close()
    store.dispose()


async def test_malformed_settings_do_not_keep_a_topic_away(
    member: ClusterMembership, store: SlowStore
) -> None:
    """Otherwise this broker could obey no further request of the controller."""
    await store.multi([Create(paths.config_path(TOPIC), b"[]")])
    assert await member.settings_of(["t"]) == {}
