"""The store that several brokers on one machine share: sessions, watches, processes that die."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from floodmark.clock import SystemClock
from floodmark.metadata import shared_table
from floodmark.metadata.session_file import SessionFile
from floodmark.metadata.shared import SharedStore
from floodmark.metadata.shared_table import SharedTable
from floodmark.metadata.store import Create, EventKind, SessionEvent, SessionLost, SetData
from kit.waiting import eventually

LONG_MS = 60_000
SHORT_MS = 300

OTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from floodmark.clock import SystemClock
from floodmark.metadata.shared import SharedStore
from floodmark.metadata.store import Create, SessionLost

async def main():
    store = SharedStore(Path(sys.argv[1]), SystemClock(), int(sys.argv[2]))
    store.watch_session(lambda event: print(event.name, flush=True))
    await store.open()
    await store.multi([Create("/other", ephemeral=True)])
    print("ready", flush=True)
    while True:
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            break
        try:
            await store.multi([Create(line.strip())])
            print("created", flush=True)
        except SessionLost:
            print("refused", flush=True)
    await store.close()

asyncio.run(main())
"""


class OtherProcess:
    """Holds a session with the ephemeral node `/other`, and creates what it is told to."""

    def __init__(self, file: Path, timeout_ms: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OTHER_PROCESS, str(file), str(timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def create(self, path: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(path + "\n")
        self._process.stdin.flush()
        return self.line()

    def signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster" / "metadata.db"


@pytest.fixture
async def store(file):
    store = SharedStore(file, SystemClock(), LONG_MS)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def other(file, store):
    """A second process; tests that need another timeout start their own."""
    process = OtherProcess(file, LONG_MS)
    yield process
    process.close()


def heard_of(store: SharedStore, path: str) -> list[tuple[EventKind, str]]:
    heard: list[tuple[EventKind, str]] = []
    store.watch(path, lambda event: heard.append((event.kind, event.path)))
    return heard


async def test_what_another_process_writes_is_read_and_heard_of(store, other):
    heard = heard_of(store, "/news")
    assert other.create("/news") == "created"
    await eventually(lambda: heard == [(EventKind.CREATED, "/news")])
    assert await store.get("/news") is not None


async def test_a_process_that_is_killed_loses_its_ephemeral_nodes_at_once(store, other):
    heard = heard_of(store, "/other")
    assert await store.get("/other") is not None
    other.signal(signal.SIGKILL)
    await eventually(lambda: heard[-1:] == [(EventKind.DELETED, "/other")])
    assert await store.get("/other") is None


async def test_a_process_that_stands_still_loses_its_session_and_learns_of_it(store, file):
    heard = heard_of(store, "/other")
    paused = OtherProcess(file, SHORT_MS)
    try:
        paused.signal(signal.SIGSTOP)
        await eventually(lambda: heard[-1:] == [(EventKind.DELETED, "/other")])
        paused.signal(signal.SIGCONT)
        assert {paused.line(), paused.create("/zombie")} <= {"LOST", "refused"}
    finally:
        paused.close()
    assert await store.get("/zombie") is None


async def test_a_disk_that_fails_for_a_moment_does_not_end_the_session(store, monkeypatch):
    events: list[SessionEvent] = []
    store.watch_session(events.append)

    def fail(self: SessionFile, deadline_ms: float) -> None:
        raise OSError(errno.EIO, "no such luck")

    with monkeypatch.context() as patch:
        patch.setattr(SessionFile, "renew", fail)
        await eventually(lambda: events == [SessionEvent.SUSPENDED])
    await eventually(lambda: events == [SessionEvent.SUSPENDED, SessionEvent.RESUMED])
    await store.multi([Create("/mine", ephemeral=True)])


async def test_opening_twice_keeps_the_session(store, file):
    await store.open()
    table = shared_table.SharedTable(str(file))
    assert len(table.sessions()) == 1
    table.close()


async def test_a_lost_session_is_followed_by_a_new_one(store, file):
    events: list[SessionEvent] = []
    store.watch_session(events.append)
    await store.multi([Create("/mine", ephemeral=True)])
    # Somebody else takes this process for dead.
    table = shared_table.SharedTable(str(file))
    table.end_session(*table.sessions())
    table.close()
    await eventually(lambda: events == [SessionEvent.LOST])
    with pytest.raises(SessionLost):
        await store.multi([Create("/late")])
    await store.open()
    assert await store.get("/mine") is None
    await store.multi([Create("/mine", ephemeral=True)])


async def test_a_session_that_was_closed_leaves_nothing(file, store):
    second = SharedStore(file, SystemClock(), LONG_MS)
    await second.open()
    await second.multi([Create("/second", ephemeral=True)])
    await second.close()
    assert await store.get("/second") is None
    assert len(list((file.parent / "sessions").iterdir())) == 1


async def test_sessions_of_before_a_reboot_are_dead(file):
    """Their rows are still there, and nobody holds their locks."""
    crashed = OtherProcess(file, LONG_MS)
    crashed.close()
    (dead,) = shared_sessions(file)
    store = SharedStore(file, SystemClock(), LONG_MS)
    await store.open()
    await eventually(lambda: dead not in shared_sessions(file))
    assert await store.get("/other") is None
    await store.close()


def shared_sessions(file: Path) -> set[int]:
    table = shared_table.SharedTable(str(file))
    try:
        return set(table.sessions())
    finally:
        table.close()


async def test_who_missed_too_many_changes_is_told_to_look_at_everything(store, monkeypatch):
    monkeypatch.setattr(shared_table, "JOURNAL_ENTRIES", 3)
    heard = heard_of(store, "/a")
    await store.multi([Create("/a"), *(SetData("/a", b"x") for _ in range(20))])
    await eventually(lambda: heard == [(EventKind.CHANGED, "/a")])


def test_a_table_opens_while_another_process_keeps_it_locked(file):
    file.parent.mkdir()
    table = SharedTable(str(file))
    with table._transaction("/"):
        SharedTable(str(file), lock_timeout_s=0).close()
    table.close()


async def test_a_lease_is_renewed_while_another_process_keeps_the_table_locked(file):
    """One that stands still in the middle of a write. The others must not expel each other."""
    (file.parent / "sessions").mkdir(parents=True)
    other = SessionFile(file.parent / "sessions" / "99.lock", float("inf"))
    table = SharedTable(str(file))
    store = SharedStore(file, SystemClock(), SHORT_MS)
    await store.open()
    (lease,) = (path for path in other_leases(file) if path.name != "99.lock")
    table.add_session(99)
    with table._transaction("/"):
        # Whose session has ended, which is to be written now.
        other.release()
        first = deadline_ms(lease)
        async with asyncio.timeout(3):
            await eventually(lambda: deadline_ms(lease) > first + 2 * SHORT_MS)
    await eventually(lambda: 99 not in table.sessions())
    await store.multi([Create("/still-here")])
    await store.close()
    table.close()


def other_leases(file: Path) -> list[Path]:
    return list((file.parent / "sessions").iterdir())


def deadline_ms(lease: Path) -> float:
    (deadline,) = struct.unpack(">d", lease.read_bytes())
    return float(deadline)


def test_brokers_that_start_together_wait_for_the_one_that_creates_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "cluster.db")
    creating = sqlite3.connect(file, isolation_level=None)
    creating.execute("BEGIN IMMEDIATE")
    is_waiting = threading.Event()

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "BEGIN IMMEDIATE":
                is_waiting.set()
            return super().execute(sql, *parameters)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(shared_table.SharedTable, file)
        opening.add_done_callback(lambda _: is_waiting.set())
        assert is_waiting.wait(10)
        creating.execute("ROLLBACK")
        creating.close()
        pool.submit(opening.result(10).close).result(10)
