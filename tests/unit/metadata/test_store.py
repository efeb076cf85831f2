"""The rules of the store, the same for all of them: files, ZooKeeper, and the one in memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from floodmark.clock import SystemClock
from floodmark.metadata.embedded import FILE_NAME, EmbeddedStore
from floodmark.metadata.node_table import NodeTable
from floodmark.metadata.shared import SharedStore
from floodmark.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    EventKind,
    NodeExists,
    NoNode,
    NotEmpty,
    SetData,
    StoreUnavailable,
)
from floodmark.metadata.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from floodmark.testing.memory_store import MemoryStore
from kit.waiting import eventually


def made(kind, file, request):
    if kind == "memory":
        return MemoryStore()
    if kind == "zookeeper":
        connect = request.getfixturevalue("chroot")
        return ZooKeeperStore(ZooKeeperSettings(connect, 10_000, 10_000))
    if kind == "shared":
        return SharedStore(file, SystemClock(), 10_000)
    return EmbeddedStore(file)


@pytest.fixture(params=["embedded", "shared", "zookeeper", "memory"])
async def store(request, tmp_path):
    store = made(request.param, tmp_path / FILE_NAME, request)
    await store.open()
    yield store
    await store.close()
    if isinstance(store, MemoryStore):
        store.dispose()


async def test_versions_count_the_changes_of_a_node(store):
    (created,) = await store.multi([Create("/a", b"0")])
    assert created == ("/a", 0)
    (changed,) = await store.multi([SetData("/a", b"1", version=0)])
    assert changed == ("/a", 1)
    node = await store.get("/a")
    assert (node.data, node.version, node.is_ephemeral) == (b"1", 1, False)
    with pytest.raises(BadVersion, match="has version 1, not 0"):
        await store.multi([SetData("/a", b"2", version=0)])


async def test_a_multi_does_all_or_nothing(store):
    await store.multi([Create("/a")])
    with pytest.raises(BadVersion):
        await store.multi([Create("/b"), SetData("/a", b"x"), Check("/a", 7)])
    assert await store.get("/b") is None
    assert (await store.get("/a")).data == b""


async def test_refusals_name_the_path(store):
    await store.multi([Create("/a"), Create("/a/b"), Create("/e", ephemeral=True)])
    with pytest.raises(NoNode, match="/x"):
        await store.multi([Create("/x/y")])
    with pytest.raises(NodeExists, match="/a"):
        await store.multi([Create("/a")])
    with pytest.raises(NotEmpty, match="/a"):
        await store.multi([Delete("/a")])
    with pytest.raises(EphemeralParent, match="/e"):
        await store.multi([Create("/e/f")])
    with pytest.raises(NoNode, match="/nothing"):
        await store.multi([Delete("/nothing")])


async def test_sequence_nodes_get_rising_numbers_even_after_deletion(store):
    await store.multi([Create("/q")])
    (first,) = await store.multi([Create("/q/n-", sequence=True)])
    await store.multi([Delete(first.path)])
    (second,) = await store.multi([Create("/q/n-", sequence=True)])
    assert (first.path, second.path) == ("/q/n-0000000000", "/q/n-0000000001")


async def test_children_and_trees_hold_only_what_lies_below(store):
    await store.multi([Create(p) for p in ("/a", "/a/b", "/a/b/c", "/a/d", "/a-other", "/ab")])
    assert await store.children("/a") == ["b", "d"]
    assert await store.children("/") == ["a", "a-other", "ab"]
    assert list(await store.read_tree("/a")) == ["/a", "/a/b", "/a/b/c", "/a/d"]
    assert await store.children("/none") == []
    assert await store.read_tree("/none") == {}


async def test_later_nodes_have_higher_transaction_numbers(store):
    await store.multi([Create("/a"), Create("/b")])
    await store.multi([Create("/c")])
    a, b, c = [await store.get(path) for path in ("/a", "/b", "/c")]
    assert a.created_zxid == b.created_zxid < c.created_zxid


async def test_ephemeral_nodes_go_with_their_session(store):
    await store.multi([Create("/stays"), Create("/goes", ephemeral=True)])
    await store.close()
    is_file = not isinstance(store, MemoryStore | ZooKeeperStore)
    again = EmbeddedStore(store._file) if is_file else store
    await again.open()
    assert await again.get("/stays") is not None
    assert await again.get("/goes") is None
    await again.close()


async def test_ephemeral_nodes_of_a_killed_process_are_gone_at_the_next_start(tmp_path):
    crashed = EmbeddedStore(tmp_path / FILE_NAME)
    await crashed.open()
    await crashed.multi([Create("/a"), Create("/e", ephemeral=True)])
    survivor = EmbeddedStore(tmp_path / FILE_NAME)
    await survivor.open()
    assert await survivor.get("/e") is None
    assert await survivor.get("/a") is not None
    await survivor.close()
    await crashed.close()


async def test_watchers_hear_of_a_node_and_of_children_that_come_and_go(store):
    heard = []
    stop = store.watch("/a", heard.append)
    if isinstance(store, ZooKeeperStore):
        # It asks to look once when it has begun to watch.
        await eventually(lambda: heard)
    for operation in (Create("/a"), SetData("/a", b"1"), Create("/a/b"), Delete("/a/b")):
        heard.clear()
        await store.multi([operation])
        await eventually(lambda: heard)
        assert all(event.path.startswith("/a") for event in heard)
    stop()
    heard.clear()
    await store.multi([Delete("/a")])
    await store.synchronize()
    assert not heard


@pytest.mark.parametrize("store", ["embedded", "shared", "memory"], indirect=True)
async def test_files_tell_of_every_change_at_and_below_a_path(store):
    heard = []
    stop = store.watch("/a", lambda event: heard.append((event.kind, event.path)))
    await store.multi([Create("/a"), Create("/ab"), Create("/a/b")])
    await store.multi([SetData("/a/b", b"1"), Delete("/ab")])
    await eventually(lambda: len(heard) == 3)
    stop()
    await store.multi([Delete("/a/b")])
    assert heard == [
        (EventKind.CREATED, "/a"),
        (EventKind.CREATED, "/a/b"),
        (EventKind.CHANGED, "/a/b"),
    ]


async def test_a_closed_store_says_so(tmp_path):
    store = EmbeddedStore(tmp_path / FILE_NAME)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.get("/a")
    await store.close()


async def test_a_file_of_a_newer_format_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    store = EmbeddedStore(tmp_path / FILE_NAME)
    with pytest.raises(StoreUnavailable, match="format 99"):
        await store.open()
    await store.close()


async def test_commits_are_synced(tmp_path):
    store = EmbeddedStore(tmp_path / FILE_NAME)
    await store.open()
    connection = store._table._connection
    pragmas = await store._run(
        lambda: [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    )
    assert pragmas == ["wal", 2]
    await store.close()


@pytest.mark.parametrize("kind", ["embedded", "shared"])
async def test_only_its_owner_reads_the_file_with_password_hashes(kind, tmp_path, request):
    store = made(kind, tmp_path / FILE_NAME, request)
    await store.open()
    await store.multi([Create("/a", b"a secret")])
    modes = {path.name: path.stat().st_mode & 0o077 for path in tmp_path.glob(f"{FILE_NAME}*")}
    await store.close()
    assert FILE_NAME in modes and set(modes.values()) == {0}


async def test_opening_it_again_ends_no_lock_of_this_process(tmp_path, request):
    """Closing any descriptor of a file ends all locks that the process has on it (POSIX)."""
    file = tmp_path / FILE_NAME
    store = made("embedded", file, request)
    await store.open()
    before = locks_on(file)
    NodeTable(str(file)).close()
    assert before and locks_on(file) == before
    await store.close()


def locks_on(file: Path) -> list[str]:
    lines = Path("/proc/locks").read_text().splitlines()
    return [line.split(":", 1)[1] for line in lines if f":{file.stat().st_ino} " in line]
