"""The ZooKeeper session against a real server: outages, lost sessions, nodes left behind."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from kazoo.client import KazooClient
from kazoo.security import make_acl

from floodmark.zookeeper.session import ZooKeeperSession, ZooKeeperUnavailable
from kit.process import free_port
from kit.waiting import eventually
from kit.zookeeper import ZooKeeper

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest_asyncio.fixture
async def session(zookeeper: ZooKeeper) -> AsyncIterator[ZooKeeperSession]:
    session = ZooKeeperSession(zookeeper.hosts, session_timeout_seconds=2)
    await session.start()
    yield session
    await session.close()


class Seen:
    """What a watch has told, to be waited for."""

    def __init__(self) -> None:
        self.names: Sequence[str] = ()
        self._changed = asyncio.Event()

    def __call__(self, names: Sequence[str]) -> None:
        self.names = names
        self._changed.set()

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(20):
            while list(self.names) != list(names):
                self._changed.clear()
                await self._changed.wait()


async def test_nodes_are_made_read_and_removed(session: ZooKeeperSession) -> None:
    assert await session.create("/one/two", b"data")
    assert not await session.create("/one/two", b"other")
    assert await session.get("/one/two") == b"data"
    await session.put("/one/two", b"other")
    assert await session.get("/one/two") == b"other"
    assert await session.children("/one") == ["two"]
    assert not await session.delete("/one")
    assert await session.delete("/one/two")
    assert not await session.delete("/one/two")
    assert await session.get("/one/two") is None
    assert await session.children("/nowhere") == []


async def test_watches_tell_of_every_change(session: ZooKeeperSession) -> None:
    seen = Seen()
    end = await session.watch_children("/watched", seen)
    await seen.until()
    await session.create("/watched/a")
    await seen.until("a")
    await session.create("/watched/b")
    await seen.until("a", "b")
    await session.delete("/watched/a")
    await seen.until("b")
    end()
    await session.delete("/watched/b")
    await session.children("/watched")
    assert seen.names == ["b"]


async def test_a_node_left_by_an_earlier_session_is_replaced(
    zookeeper: ZooKeeper, session: ZooKeeperSession
) -> None:
    earlier = ZooKeeperSession(zookeeper.hosts, session_timeout_seconds=2)
    await earlier.start()
    await earlier.hold("/held/left-behind")
    await session.hold("/held/left-behind")
    await earlier.close()
    assert await session.children("/held") == ["left-behind"]
    await session.release("/held/left-behind")
    assert await session.children("/held") == []


async def test_what_is_released_while_nodes_are_repaired_stays_away(
    session: ZooKeeperSession,
) -> None:
    """Every event of a watch looks after all nodes that are held."""
    for number in range(100):
        path = f"/released/{number % 7}"
        await session.hold(path)
        session._repair_soon()
        for _ in range(number % 5):
            await asyncio.sleep(0)
        await session.release(path)
    while session._repair is not None and not session._repair.done():
        await session._repair
    assert await session.children("/released") == []


async def test_after_an_expired_session_everything_is_there_again(
    zookeeper: ZooKeeper, session: ZooKeeperSession
) -> None:
    seen = Seen()
    await session.watch_children("/again", seen)
    await session.hold("/again/node", b"data")
    await seen.until("node")

    async def node_is_back() -> bool:
        return await session.children("/again") == ["node"]

    expire(zookeeper, session)
    await eventually(lambda: session.sessions == 2)
    await eventually(node_is_back)
    assert await session.get("/again/node") == b"data"
    await session.create("/again/other")
    await seen.until("node", "other")


async def test_a_forbidden_node_keeps_nothing_else_from_being_repaired(
    zookeeper: ZooKeeper, session: ZooKeeperSession
) -> None:
    other = ZooKeeperSession(zookeeper.hosts, session_timeout_seconds=2)
    await other.start()
    client: Any = other._client
    await asyncio.to_thread(
        client.create, "/forbidden", acl=[make_acl("world", "anyone", read=True)]
    )
    seen = Seen()
    await session.hold("/forbidden/node")
    await session.hold("/allowed/node")
    await session.watch_children("/allowed", seen)
    await seen.until("node")
    await other.create("/allowed/other")
    await seen.until("node", "other")

    expire(zookeeper, session)
    await eventually(lambda: session.sessions == 2)
    await other.create("/allowed/third")
    await seen.until("node", "other", "third")
    await other.close()


async def test_a_restarted_server_finds_everything_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with ZooKeeper(tmp_path_factory.mktemp("restarted")) as zookeeper:
        session = ZooKeeperSession(zookeeper.hosts, session_timeout_seconds=2)
        await session.start()
        seen = Seen()
        await session.watch_children("/restarted", seen)
        await session.hold("/restarted/before")
        zookeeper.stop()
        with pytest.raises(ZooKeeperUnavailable):
            await session.create("/restarted/refused")
        # Asked for while nobody answers: comes when somebody does.
        await session.hold("/restarted/during")
        await session.hold("/restarted/lasting", ephemeral=False)
        await session.release("/restarted/before")
        await asyncio.to_thread(zookeeper.start)
        await seen.until("during", "lasting")
        await session.close()


async def test_without_a_server_start_says_so() -> None:
    session = ZooKeeperSession(f"127.0.0.1:{free_port()}")
    with pytest.raises(ZooKeeperUnavailable, match="no ZooKeeper answers"):
        await session.start(0.3)


def expire(zookeeper: ZooKeeper, session: ZooKeeperSession) -> None:
    """A second connection with the same session closes it, as an expiry would."""
    client: Any = session._client
    twin = KazooClient(zookeeper.hosts, client_id=client.client_id, timeout=2)
    twin.start(10)
    twin.stop()
    twin.close()
