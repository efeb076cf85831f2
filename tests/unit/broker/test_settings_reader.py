"""What a broker reads of the store when settings change: what has changed, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from floodmark.broker.settings_reader import SettingsReader
from floodmark.metadata import acl_nodes, paths
from floodmark.metadata.image import ConfigResource, MetadataImage, TopicImage
from floodmark.metadata.loader import load_settings
from floodmark.metadata.paths import NO_TOPIC_ID
from floodmark.metadata.store import Create, Delete, Node, Operation, SetData
from floodmark.security.resources import Operation as AclOperation
from floodmark.security.resources import ResourceKind
from floodmark.testing.memory_store import MemoryStore
from kit.acls import acl

ORDERS = ConfigResource("topic", "orders")
KNOWN = MetadataImage(topics={"orders": TopicImage("orders", NO_TOPIC_ID, ())})


class CountingStore(MemoryStore):
    """As ZooKeeper: every node is a request."""

    def __init__(self) -> None:
        super().__init__()
        self.watches_below = False
        self.trees: list[str] = []
        self.got: list[str] = []

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        self.trees.append(path)
        return await super().read_tree(path)

    async def get(self, path: str) -> Node | None:
        self.got.append(path)
        return await super().get(path)


@pytest.fixture
async def store() -> AsyncIterator[CountingStore]:
    store = CountingStore()
    await store.open()
    await store.multi([Create(path) for path in sorted(paths.PERSISTENT_PATHS)])
    yield store
    await store.close()
    store.dispose()


async def change(store: CountingStore, resource: ConfigResource, value: str | None) -> None:
    """As the controller and Kafka's brokers do it."""
    path = paths.config_path(resource)
    known = await store.get(path)
    operation: Operation
    if value is None:
        operation = Delete(path)
    else:
        data = paths.encode_config({"retention.ms": value})
        operation = Create(path, data) if known is None else SetData(path, data)
    await store.multi([operation, paths.config_change(resource)])


async def read(reader: SettingsReader, known: MetadataImage, *new_topics: str) -> MetadataImage:
    return replace(await reader.read(known, new_topics), topics=known.topics)


async def test_everything_is_read_once_and_then_what_notices_name(store: CountingStore) -> None:
    reader = SettingsReader(store)
    await change(store, ORDERS, "1")
    image = await read(reader, KNOWN)
    assert image.config(*ORDERS) == {"retention.ms": "1"}
    store.trees.clear()
    for value in ("2", "3"):
        await change(store, ORDERS, value)
    store.got.clear()
    image = await read(reader, image)
    assert image.config(*ORDERS) == {"retention.ms": "3"}
    assert store.trees == []
    assert [path for path in store.got if path.startswith("/config/topics")] == [
        paths.config_path(ORDERS)
    ]
    await change(store, ORDERS, None)
    image = await read(reader, image)
    assert ORDERS not in image.configs
    assert image == replace(await load_settings(store), topics=KNOWN.topics)


async def test_settings_of_new_topics_come_without_a_notice(store: CountingStore) -> None:
    reader = SettingsReader(store)
    image = await read(reader, KNOWN)
    data = paths.encode_config({"retention.ms": "5"})
    await store.multi([Create(paths.config_path(ORDERS), data)])
    assert ORDERS not in (await read(reader, image)).configs
    assert (await read(reader, image, "orders")).config(*ORDERS) == {"retention.ms": "5"}


async def test_settings_of_deleted_topics_go(store: CountingStore) -> None:
    reader = SettingsReader(store)
    await change(store, ORDERS, "1")
    image = await read(reader, KNOWN)
    assert (await read(reader, replace(image, topics={}))).configs == {}


async def test_with_notices_missed_or_a_session_lost_everything_is_read(
    store: CountingStore,
) -> None:
    reader = SettingsReader(store)
    image = await read(reader, KNOWN)
    for _ in range(paths.NOTICES_KEPT):
        await change(store, ORDERS, "9")
    store.trees.clear()
    image = await read(reader, image)
    assert paths.CONFIG in store.trees
    assert image.config(*ORDERS) == {"retention.ms": "9"}
    store.trees.clear()
    await read(reader, image)
    assert store.trees == []
    reader.forget()
    await read(reader, image)
    assert paths.CONFIG in store.trees


async def test_rules_are_read_when_they_have_changed(store: CountingStore) -> None:
    reader = SettingsReader(store)
    image = await read(reader, KNOWN)
    wanted = acl(AclOperation.READ, ResourceKind.TOPIC, "orders")
    rules = acl_nodes.encode_rules(frozenset({wanted.rule}))
    node = Create(acl_nodes.acl_path(wanted.pattern), rules)
    await store.multi([node, acl_nodes.change_notification(wanted.pattern)])
    assert wanted.pattern in (await read(reader, image)).acls
