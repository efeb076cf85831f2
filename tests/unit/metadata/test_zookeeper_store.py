"""The store on a real ZooKeeper: sessions interrupted or lost, watches, what a crash left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from floodmark.controller.topics import partition_operations
from floodmark.metadata import paths
from floodmark.metadata.image import PartitionImage, TopicImage
from floodmark.metadata.loader import decode_topics
from floodmark.metadata.session_handle import SessionHandleFile
from floodmark.metadata.store import (
    Create,
    SessionEvent,
    SessionLost,
    SetData,
    StoreError,
    StoreUnavailable,
)
from floodmark.metadata.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from floodmark.zookeeper.client import end_session
from kit.process import free_port
from kit.waiting import eventually
from kit.zookeeper import ZooKeeper

TIMEOUT_MS = 10_000
PATIENT_TIMEOUT_MS = 60_000


def store_on(
    connect: str, handle_file: SessionHandleFile | None = None, timeout_ms: int = TIMEOUT_MS
) -> ZooKeeperStore:
    return ZooKeeperStore(ZooKeeperSettings(connect, timeout_ms, timeout_ms), handle_file)


@pytest.fixture
async def store(chroot):
    store = store_on(chroot)
    await store.open()
    yield store
    await store.close()


async def expire(store: ZooKeeperStore) -> None:
    """As ZooKeeper does with a client that was silent for too long."""
    await end_session(store._settings.connect, store._client.handle, TIMEOUT_MS)


async def test_a_lost_session_is_told_and_followed_by_a_new_one(store):
    events = []
    store.watch_session(events.append)
    await store.multi([Create("/mine", ephemeral=True)])
    before = await store.get("/mine")
    await expire(store)
    await eventually(lambda: SessionEvent.LOST in events)
    assert not store.has_session
    with pytest.raises(SessionLost):
        await store.multi([Create("/late")])
    with pytest.raises(SessionLost):
        await store.get("/mine")
    await store.open()
    assert store.has_session
    assert await store.get("/mine") is None
    await store.multi([Create("/mine", ephemeral=True)])
    assert (await store.get("/mine")).created_zxid > before.created_zxid


async def test_the_replicas_that_are_eligible_to_lead_are_read_with_the_topics(store):
    """A controller that did not know the list could never write another one."""
    shrunk = PartitionImage(-1, 5, 0, (1, 2, 3), (1,), eligible_leader_replicas=(2,))
    whole = PartitionImage(1, 5, 0, (1, 2, 3), (1, 2, 3))
    topic = TopicImage("orders", UUID(int=7), (shrunk, whole))
    partitions = paths.partitions_path("orders")
    await store.multi(
        [
            *(Create(path) for path in ("/brokers", paths.TOPICS)),
            Create(paths.topic_path("orders"), paths.encode_topic(topic)),
            Create(partitions),
            *partition_operations("orders", 0, shrunk, 1),
            *partition_operations("orders", 1, whole, 1),
            Create(paths.eligible_path("orders", 0), paths.encode_eligible(shrunk)),
        ]
    )
    assert decode_topics(await store.read_tree(paths.TOPICS)) == {"orders": topic}


async def test_watches_go_on_in_a_new_session(store):
    events, heard = [], []
    store.watch_session(events.append)
    store.watch("/a", heard.append)
    await eventually(lambda: heard)
    await expire(store)
    await eventually(lambda: SessionEvent.LOST in events)
    heard.clear()
    await store.open()
    await eventually(lambda: heard)
    heard.clear()
    await store.multi([Create("/a")])
    await eventually(lambda: heard)


async def test_every_later_change_is_told_and_no_watch_piles_up(store):
    heard = []
    await store.multi([Create("/a")])
    store.watch("/a", heard.append)
    await eventually(lambda: heard)
    for number in range(20):
        heard.clear()
        await store.multi([Create(f"/a/{number}")])
        await eventually(lambda: heard)
    kazoo = store._client.kazoo
    assert sum(len(watchers) for watchers in kazoo._data_watchers.values()) <= 1


async def test_an_outage_shorter_than_the_session_is_only_a_wait(tmp_path):
    with ZooKeeper(tmp_path / "zookeeper") as server:
        # A JVM may take a while to start again on a busy machine, and may leave one connection
        # unanswered: kazoo waits for each server it knows for an equal part of the session.
        twice = f"{server.hosts},{server.hosts}/kafka"
        store = store_on(twice, timeout_ms=PATIENT_TIMEOUT_MS)
        events, heard = [], []
        store.watch_session(events.append)
        await store.open()
        await store.multi([Create("/mine", ephemeral=True)])
        store.watch("/mine", heard.append)
        await eventually(lambda: heard)
        heard.clear()
        await asyncio.to_thread(server.stop)
        await eventually(lambda: SessionEvent.SUSPENDED in events)
        reading = asyncio.create_task(store.get("/mine"))
        writing = asyncio.create_task(store.multi([SetData("/mine", b"after")]))
        await asyncio.to_thread(server.start)
        assert (await reading).is_ephemeral
        await writing
        assert events == [SessionEvent.SUSPENDED, SessionEvent.RESUMED]
        # Nobody knows what has changed meanwhile.
        await eventually(lambda: heard)
        await store.close()


async def test_a_write_whose_answer_is_lost_says_that_nobody_knows(tmp_path):
    with ZooKeeper(tmp_path / "zookeeper") as server:
        store = store_on(server.hosts)
        await store.open()
        server.freeze()
        writing = asyncio.create_task(store.multi([Create("/a")]))
        # The request is on its way before the connection breaks.
        await eventually(lambda: store._client.kazoo._pending)
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreUnavailable):
            await writing
        await asyncio.to_thread(server.start)
        await store.close()


async def test_nobody_answers(tmp_path):
    settings = ZooKeeperSettings(f"127.0.0.1:{free_port()}/kafka", TIMEOUT_MS, 300)
    store = ZooKeeperStore(settings)
    with pytest.raises(StoreUnavailable, match="no ZooKeeper answers at"):
        await store.open()
    await store.close()


async def test_the_session_of_a_killed_process_is_ended_by_the_next_one(chroot, tmp_path: Path):
    """It has the log folder's lock, so the other one is gone."""
    killed = store_on(chroot, SessionHandleFile(tmp_path))
    await killed.open()
    await killed.multi([Create("/mine", ephemeral=True)])
    # Nothing is closed: a process that is killed leaves its session and the file.
    next_one = store_on(chroot, SessionHandleFile(tmp_path))
    await next_one.open()
    assert await next_one.get("/mine") is None
    assert (tmp_path / "zookeeper-session").stat().st_mode & 0o077 == 0
    await next_one.close()
    assert not (tmp_path / "zookeeper-session").exists()
    await killed.close()


async def test_a_multi_that_zookeeper_would_not_read_is_refused_before(store):
    with pytest.raises(StoreError, match="too large"):
        await store.multi([Create("/large", b"x" * 2_000_000)])
    assert await store.get("/large") is None
    await store.multi([Create("/small")])


async def test_a_large_tree_is_read_whole(store):
    await store.multi([Create("/tree")])
    expected = ["/tree"]
    for parent in range(30):
        names = [f"/tree/{parent}", f"/tree/{parent}/a", f"/tree/{parent}/b"]
        await store.multi([Create(path, path.encode()) for path in names])
        expected += names
    tree = await store.read_tree("/tree")
    assert list(tree) == sorted(expected)
    assert all(node.data == path.encode() for path, node in tree.items() if path != "/tree")
