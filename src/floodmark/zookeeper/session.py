"""A ZooKeeper client that survives the loss of its session and restores its nodes and watches.

Held nodes are created again after a lost session or an outage, and replace those left behind by an
earlier session of ours. Used by the service registry. The metadata store must know when a session
is lost, so it uses `client.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from floodmark.zookeeper.loop_bridge import LoopBridge, Result

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
OPERATION_TIMEOUT_SECONDS = 15.0
SESSION_TIMEOUT_SECONDS = 60.0
"""Dubbo's default session timeout for registries."""


class ZooKeeperUnavailable(Exception):
    """ZooKeeper did not respond. The operation may or may not have happened."""


class ZooKeeperSession:
    """A client of an ensemble, over as many sessions as necessary."""

    def __init__(
        self, hosts: str, *, session_timeout_seconds: float = SESSION_TIMEOUT_SECONDS
    ) -> None:
        """`hosts` has the format of ZooKeeper's clients: `a:2181,b:2181/chroot`."""
        self.hosts = hosts
        self._loop = asyncio.get_running_loop()
        # Reconnects forever, with short pauses: nobody finds a provider that is not registered.
        reconnect = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=2.0)
        self._client = KazooClient(
            hosts, timeout=session_timeout_seconds, connection_retry=reconnect
        )
        self._bridge = LoopBridge(self._client)
        self._held: dict[str, _Held] = {}
        self._watches: dict[int, _Watch] = {}
        self._next_watch = 0
        self._is_closed = False
        self._was_lost = False
        self._repair: asyncio.Task[None] | None = None
        self._repair_again = False
        self._news = asyncio.Event()
        self.sessions = 0
        """The number of sessions so far, for tests."""

    @property
    def is_connected(self) -> bool:
        return bool(self._client.connected)

    async def start(self, timeout_seconds: float = 15.0) -> None:
        """Connects. Raises ZooKeeperUnavailable if no server responds in time."""
        self._client.add_listener(self._state_changed)
        try:
            await self._bridge.in_thread(self._client.start, timeout_seconds)
        except KazooTimeoutError:
            await self.close()
            raise ZooKeeperUnavailable(f"no ZooKeeper answers at {self.hosts}") from None

    async def close(self) -> None:
        """Ends the session, which removes its ephemeral nodes at once."""
        self._is_closed = True
        if self._repair is not None:
            self._repair.cancel()
        await self._bridge.stop()

    # Single operations

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> bool:
        """Creates a node, and persistent parents. Returns False if it already exists."""
        try:
            await self._ask(
                self._client.create_async, path, data, ephemeral=ephemeral, makepath=True
            )
        except NodeExistsError:
            return False
        return True

    async def put(self, path: str, data: bytes) -> None:
        """Creates or updates a persistent node."""
        while not await self.create(path, data):
            try:
                await self._ask(self._client.set_async, path, data)
            except NoNodeError:
                continue
            return

    async def get(self, path: str) -> bytes | None:
        """A node's data, or None if the node does not exist."""
        try:
            data, _ = await self._ask(self._client.get_async, path)
        except NoNodeError:
            return None
        return bytes(data)

    async def children(self, path: str) -> list[str]:
        """The names of a node's children. Empty if the node does not exist."""
        try:
            return list(await self._ask(self._client.get_children_async, path))
        except NoNodeError:
            return []

    async def delete(self, path: str) -> bool:
        """Returns False if the node did not exist. A node with children stays."""
        try:
            await self._ask(self._client.delete_async, path)
        except (NoNodeError, NotEmptyError):
            return False
        return True

    # Held nodes

    async def hold(self, path: str, data: bytes = b"", *, ephemeral: bool = True) -> None:
        """Keeps a node in existence until `release`, across outages and lost sessions.

        If ZooKeeper is unreachable, creates it as soon as possible. A node that is not ephemeral
        outlives this process unless it is released.
        """
        held = self._held[path] = _Held(data, ephemeral)
        try:
            await self._own(path, held)
        except (ZooKeeperUnavailable, KazooException) as error:
            # Not the name of the node: a provider's contains its token.
            folder = path.rpartition("/")[0]
            logger.warning("cannot create a node below %s yet: %s", folder, error)
            self._repair_soon()

    async def release(self, path: str) -> None:
        """Removes a held node."""
        self._held.pop(path, None)
        try:
            await self.delete(path)
        except ZooKeeperUnavailable:
            # The end of the session removes it. A session that continues would keep it.
            self._repair_soon()
            self._released(path)

    def _released(self, path: str) -> None:
        self._watches[self._new_id()] = _Watch(path, None)

    async def _own(self, path: str, held: _Held) -> None:
        # It may be released at any time. Then it must not be created again.
        while self._held.get(path) == held:
            if await self.create(path, held.data, ephemeral=held.is_ephemeral):
                return
            if not held.is_ephemeral:
                return
            try:
                found, stat = await self._ask(self._client.get_async, path)
            except NoNodeError:
                continue
            session_id = (self._client.client_id or (0, b""))[0]
            if stat.ephemeralOwner == session_id and found == held.data:
                return
            # From an earlier session, and would vanish when that expires. Replace it now.
            await self.delete(path)

    # Watches

    async def watch_children(
        self, path: str, listener: Callable[[Sequence[str]], None]
    ) -> Callable[[], None]:
        """Calls the listener with the names of a node's children, now and after every change.

        Creates the node if necessary. Returns a function that ends the watch.
        """
        number = self._new_id()
        watch = self._watches[number] = _Watch(path, listener)
        try:
            await self._arm(watch)
        except (ZooKeeperUnavailable, KazooException) as error:
            logger.warning("cannot watch %s yet: %s", path, error)
            self._repair_soon()
        return lambda: self._end_watch(number)

    def _end_watch(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None:
            watch.listener = None

    def _new_id(self) -> int:
        self._next_watch += 1
        return self._next_watch

    async def _arm(self, watch: _Watch) -> None:
        """Reads the children and sets a watch for their next change."""
        watch.generation += 1
        generation = watch.generation

        def fired(_event: object) -> None:
            self._bridge.call(self._fired, watch, generation)

        while True:
            await self.create(watch.path)
            try:
                names = await self._ask(self._client.get_children_async, watch.path, watch=fired)
            except NoNodeError:
                continue
            break
        if watch.listener is not None:
            watch.listener(sorted(names))

    def _fired(self, watch: _Watch, generation: int) -> None:
        if watch.listener is not None and generation == watch.generation:
            watch.is_stale = True
            self._repair_soon()

    # The session

    def _state_changed(self, state: str) -> None:
        """Runs in a kazoo thread."""
        self._bridge.call(self._note_state, state)

    def _note_state(self, state: str) -> None:
        if self._is_closed:
            return
        if state == KazooState.LOST:
            logger.warning("the ZooKeeper session with %s has expired", self.hosts)
            self._was_lost = True
        elif state == KazooState.SUSPENDED:
            logger.warning("the connection to ZooKeeper %s is interrupted", self.hosts)
        else:
            if self._was_lost or not self.sessions:
                self.sessions += 1
            if self.sessions > 1 or self._held:
                logger.info("connected to ZooKeeper %s again", self.hosts)
            self._was_lost = False
            for watch in self._watches.values():
                watch.is_stale = True
            self._repair_soon()

    def _repair_soon(self) -> None:
        if self._is_closed:
            return
        self._repair_again = True
        self._news.set()
        if self._repair is None or self._repair.done():
            self._repair = self._loop.create_task(self._repair_all())

    async def _repair_all(self) -> None:
        """Restores held nodes and watches. Retries until it succeeds."""
        while self._repair_again:
            self._repair_again = False
            failure: Exception | None = None
            for repair in self._repairs():
                try:
                    await repair()
                except (ZooKeeperUnavailable, KazooException) as error:
                    # The others may succeed: only this node may be forbidden to us.
                    failure = error
                    if not self._client.connected:
                        break
            if failure is not None:
                logger.warning(
                    "ZooKeeper %s: not all nodes are there, retrying: %s", self.hosts, failure
                )
                self._repair_again = True
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), RETRY_SECONDS)

    def _repairs(self) -> list[Callable[[], Awaitable[None]]]:
        held = [partial(self._own, path, item) for path, item in self._held.items()]
        return [*held, *(partial(self._renew, *item) for item in self._watches.items())]

    async def _renew(self, number: int, watch: _Watch) -> None:
        if watch.listener is None:
            # A node that was released while ZooKeeper was unreachable.
            if watch.path not in self._held:
                await self.delete(watch.path)
            self._watches.pop(number, None)
        elif watch.is_stale or not watch.generation:
            watch.is_stale = False
            try:
                await self._arm(watch)
            except (ZooKeeperUnavailable, KazooException):
                watch.is_stale = True
                raise

    async def _ask(self, operation: Callable[..., Result], *arguments: Any, **options: Any) -> Any:
        """Runs one operation. Connection failures raise ZooKeeperUnavailable."""
        if not self._client.connected:
            # Kazoo would queue it until the connection is back.
            raise ZooKeeperUnavailable(f"ZooKeeper {self.hosts}: not connected")
        try:
            return await self._bridge.answer(
                OPERATION_TIMEOUT_SECONDS, operation, *arguments, **options
            )
        except (NodeExistsError, NoNodeError, NotEmptyError):
            raise
        except (KazooException, TimeoutError) as error:
            text = str(error) or type(error).__name__
            raise ZooKeeperUnavailable(f"ZooKeeper {self.hosts}: {text}") from error


class _Held(NamedTuple):
    """A node that should exist."""

    data: bytes
    is_ephemeral: bool


class _Watch:
    """A watch on the children of a path. Without a listener: a node that should not exist."""

    __slots__ = ("generation", "is_stale", "listener", "path")

    def __init__(self, path: str, listener: Callable[[Sequence[str]], None] | None) -> None:
        self.path = path
        self.listener = listener
        self.generation = 0
        self.is_stale = False
