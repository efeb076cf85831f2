"""What tests open is closed, also if it never opens."""

import asyncio
import tempfile
import threading
from pathlib import Path

import pytest

from floodmark.testing.cluster.cluster import Cluster
from floodmark.testing.cluster.network import ClusterNetwork
from floodmark.testing.cluster.proxy import Proxy
from floodmark.testing.with_block import WithBlock


class Slow(WithBlock):
    def __init__(self) -> None:
        self.may_open = threading.Event()
        self.is_open = False

    def _enter(self) -> None:
        self.may_open.wait(30)
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


async def test_a_block_that_is_cancelled_while_it_opens_is_closed() -> None:
    slow = Slow()

    async def work() -> None:
        async with slow:
            raise AssertionError("it was cancelled before")

    task = asyncio.create_task(work())
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.sleep(0.05)
    slow.may_open.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.1)  # the thread may have gone on
    assert not slow.is_open


def test_a_cluster_whose_zookeeper_cannot_be_used_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no more sockets")

    monkeypatch.setattr(Proxy, "open", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="no more sockets"):
        Cluster(settings={"zookeeper.connect": "127.0.0.1:2181"}).open()
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) == before


async def test_a_zookeeper_without_a_port_has_the_usual_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[tuple[int, str]] = []

    async def note(_proxy: Proxy, port: int, host: str) -> None:
        opened.append((port, host))

    monkeypatch.setattr(Proxy, "open", note)
    network = ClusterNetwork([1], "zk1,zk2:2182,[::1]:2183,[::1]/kafka")
    await network.open_stores()
    await network.close()
    assert opened == [(2181, "zk1"), (2182, "zk2"), (2183, "::1"), (2181, "::1")]
