"""One ZooKeeper session on an asyncio loop: awaitable calls on top of kazoo's threads.

The metadata store creates one for each of its sessions. A client whose session has expired is
discarded, so that nothing ever happens in a session that its owner does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from floodmark.zookeeper.loop_bridge import LoopBridge, Result, end
from floodmark.zookeeper.quiet_log import quiet_logger
from floodmark.zookeeper.security import NO_SECURITY, ZooKeeperSecurity

SessionHandle = tuple[int, bytes]
"""Id and password. They allow taking over the session, or ending it."""


class Contact(Enum):
    """What a session reports to its owner."""

    INTERRUPTED = "interrupted"
    RESTORED = "restored"
    EXPIRED = "expired"


class NoAnswer(Exception):
    """ZooKeeper did not respond. The operation may or may not have happened."""


class Expired(Exception):
    """The session has ended, and its ephemeral nodes are gone. The operation did not happen."""


class LoopClient:
    """Call `start` and `close` once each."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        on_contact: Callable[[Contact], None],
        security: ZooKeeperSecurity = NO_SECURITY,
    ) -> None:
        """`hosts` has the format of ZooKeeper's clients: `a:2181,b:2181/chroot`. `on_contact` is
        called on the loop."""
        self.hosts = hosts
        self._loop = asyncio.get_running_loop()
        self._timeout_s = session_timeout_ms / 1000
        # Reconnects forever, with short pauses, because the session may expire soon.
        reconnect = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5)
        servers, slash, chroot = hosts.partition("/")
        self._chroot = f"{slash}{chroot}".rstrip("/")
        self.kazoo = KazooClient(
            servers,
            timeout=self._timeout_s,
            connection_retry=reconnect,
            logger=quiet_logger(),
            **security.options(),
        )
        self._bridge = LoopBridge(self.kazoo)
        self._on_contact = on_contact
        self._connected = asyncio.Event()
        self._is_closed = False
        self._was_connected = False
        # Set by a kazoo thread immediately.
        self.is_expired = False

    @property
    def handle(self) -> SessionHandle | None:
        """Available after `start`."""
        handle: SessionHandle | None = self.kazoo.client_id
        return handle

    async def start(self, timeout_ms: float) -> None:
        """Creates the chroot if necessary. Raises NoAnswer if no server responds in time."""
        self.kazoo.add_listener(self._state_changed)
        connected = self.kazoo.start_async()
        await self._bridge.in_thread(connected.wait, timeout_ms / 1000)
        if not self.kazoo.connected:
            await self.close()
            raise NoAnswer(f"no ZooKeeper answers at {self.hosts}")
        self._connected.set()
        if self._chroot:
            await self.ask(self.kazoo.ensure_path_async, self._chroot)
            self.kazoo.chroot = self._chroot

    async def close(self) -> None:
        """Ends the session, which removes its ephemeral nodes."""
        self._is_closed = True
        self._connected.set()
        await self._bridge.stop()

    async def ask(self, operation: Callable[..., Result], *arguments: Any, **options: Any) -> Any:
        """Runs one of kazoo's `_async` calls. Waits for a connection first, at most as long as the
        session may last. Refusals raise kazoo's exceptions; NoAnswer and Expired are ours."""
        await self._until_connected()
        try:
            return await self._bridge.answer(self._timeout_s, operation, *arguments, **options)
        except (SessionExpiredError, ConnectionClosedError, AuthFailedError):
            raise Expired() from None
        except (ConnectionLoss, OperationTimeoutError, TimeoutError) as error:
            text = "the connection was lost" if isinstance(error, ConnectionLoss) else "no answer"
            raise NoAnswer(f"ZooKeeper {self.hosts}: {text}") from error

    async def ask_all(
        self, operation: Callable[[str], Result], paths: Sequence[str], in_flight: int
    ) -> list[Any]:
        """Runs one of kazoo's `_async` calls for each path. A failed call yields its exception.

        At most `in_flight` run at a time. A kazoo thread sends the next one, so that the loop wakes
        up once, and not for each response.
        """
        await self._until_connected()
        if not paths:
            return []
        all_answered: asyncio.Future[list[Any]] = self._loop.create_future()
        answers: list[Any] = [None] * len(paths)
        waiting = iter(enumerate(paths))
        left = len(paths)

        def ask_next() -> None:
            for index, path in waiting:
                operation(path).rawlink(functools.partial(answered, index))
                return

        def answered(index: int, result: Result) -> None:
            nonlocal left
            answers[index] = result.value if result.exception is None else result.exception
            left -= 1
            ask_next()
            if left == 0:
                self._bridge.settle(all_answered, answers)

        for _ in range(min(in_flight, len(paths))):
            ask_next()
        return await all_answered

    async def _until_connected(self) -> None:
        if not self._connected.is_set():
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._connected.wait()
            except TimeoutError:
                raise NoAnswer(f"no ZooKeeper answers at {self.hosts}") from None
        if self.is_expired or self._is_closed:
            raise Expired()

    def _state_changed(self, state: str) -> None:
        """Runs in a kazoo thread."""
        if state == KazooState.LOST:
            self.is_expired = True
        self._bridge.call(self._note_state, state)

    def _note_state(self, state: str) -> None:
        if self._is_closed:
            return
        if state == KazooState.CONNECTED:
            self._connected.set()
            if self._was_connected and not self.is_expired:
                self._on_contact(Contact.RESTORED)
            self._was_connected = True
        elif state == KazooState.SUSPENDED:
            self._connected.clear()
            self._on_contact(Contact.INTERRUPTED)
        else:
            # Wake up callers that wait for a connection: there will be none.
            self._connected.set()
            self._on_contact(Contact.EXPIRED)


async def end_session(
    hosts: str,
    handle: SessionHandle,
    timeout_ms: float,
    security: ZooKeeperSecurity = NO_SECURITY,
) -> None:
    """Ends the session of a dead process, so that nobody has to wait until it expires.

    Does nothing if it has already ended, or ZooKeeper does not respond.
    """

    def take_over_and_end() -> None:
        kazoo = KazooClient(hosts, client_id=handle, **security.options())
        with contextlib.suppress(KazooTimeoutError):
            kazoo.start(timeout_ms / 1000)
        end(kazoo)

    await asyncio.get_running_loop().run_in_executor(None, take_over_and_end)
