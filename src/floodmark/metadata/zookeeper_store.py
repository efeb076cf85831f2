"""The store of a cluster across machines: a real ZooKeeper with Kafka 3.9's nodes.

Created by broker/. One `LoopClient` per session: after SessionEvent.LOST, the owner calls `open`
again. Reads are repeated if their response is lost. A multi is not, because it may have been
applied (StoreUnavailable).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import KazooException, NoNodeError

from floodmark.metadata import paths
from floodmark.metadata.session_handle import SessionHandleFile
from floodmark.metadata.store import (
    ANY_VERSION,
    BadVersion,
    Create,
    Delete,
    Node,
    NodeExists,
    NotEmpty,
    Operation,
    Outcome,
    SessionEvent,
    SessionLost,
    SessionWatcher,
    SetData,
    StoreError,
    StoreUnavailable,
    Watcher,
    operation_bytes,
)
from floodmark.metadata.zookeeper_acls import acl_of
from floodmark.metadata.zookeeper_errors import multi_refusal, store_error
from floodmark.metadata.zookeeper_watches import ZooKeeperWatches
from floodmark.vocabulary import TopicPartition
from floodmark.zookeeper.client import Contact, Expired, LoopClient, NoAnswer, end_session
from floodmark.zookeeper.security import NO_SECURITY, ZooKeeperSecurity

logger = logging.getLogger(__name__)

MULTI_LIMIT_BYTES = 512 * 1024
"""ZooKeeper refuses requests over 1 MB (jute.maxbuffer) and drops the connection.

Half of that leaves room for what we do not count: headers, and the transaction its servers
exchange.
"""

LARGEST_REQUEST_BYTES = 1024 * 1024 - 4096
"""ZooKeeper's default limit minus headers: larger requests close the connection."""

_EVENTS = {
    Contact.INTERRUPTED: SessionEvent.SUSPENDED,
    Contact.RESTORED: SessionEvent.RESUMED,
    Contact.EXPIRED: SessionEvent.LOST,
}


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """`connect` is `host:port,host:port/chroot`."""

    connect: str
    session_timeout_ms: int
    connection_timeout_ms: int
    max_in_flight: int = 10
    security: ZooKeeperSecurity = NO_SECURITY


class ZooKeeperStore:
    """`handle_file` stores the session, so that the next start can end a crashed one."""

    multi_limit_bytes: int | None = MULTI_LIMIT_BYTES
    watches_below = False

    def __init__(
        self, settings: ZooKeeperSettings, handle_file: SessionHandleFile | None = None
    ) -> None:
        self._settings = settings
        self._handle_file = handle_file
        self._client: LoopClient | None = None
        self._is_first = True
        self._session_watchers: list[SessionWatcher] = []
        self._watches = ZooKeeperWatches(self._ask)
        # Whether there may be nodes that this process has not seen.
        self._reads_all_lists = False

    @property
    def has_session(self) -> bool:
        """False once ZooKeeper has told any thread of this process otherwise."""
        return self._client is not None and not self._client.is_expired

    # -- sessions -------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._client is not None:
            return
        if self._is_first:
            await self._end_session_of_last_run()
            self._is_first = False
        client = LoopClient(
            self._settings.connect,
            self._settings.session_timeout_ms,
            lambda contact: self._contact_changed(client, contact),
            self._settings.security,
        )
        try:
            await client.start(self._settings.connection_timeout_ms)
        except (NoAnswer, Expired) as problem:
            await client.close()
            raise StoreUnavailable("/", f"{problem or 'the session has expired'}") from problem
        self._client = client
        await self._remember(client)
        self._watches.renew_all()

    async def close(self) -> None:
        client, self._client = self._client, None
        self._watches.close()
        if client is not None:
            await client.close()
            if self._handle_file is not None:
                await asyncio.to_thread(self._handle_file.remove)

    async def _end_session_of_last_run(self) -> None:
        """Our own ephemeral nodes from before a crash would block us until they expire."""
        if self._handle_file is None:
            return
        handle = await asyncio.to_thread(self._handle_file.read)
        if handle is not None:
            settings = self._settings
            await end_session(
                settings.connect, handle, settings.connection_timeout_ms, settings.security
            )

    async def _remember(self, client: LoopClient) -> None:
        handle = client.handle
        if self._handle_file is not None and handle is not None:
            await asyncio.to_thread(self._handle_file.write, handle)

    def _contact_changed(self, client: LoopClient, contact: Contact) -> None:
        if client is not self._client:
            return
        if contact is Contact.EXPIRED:
            self._client = None
            # kazoo would start a new session that nobody knows about.
            self._closing = asyncio.create_task(client.close())
        elif contact is Contact.RESTORED:
            # ZooKeeper dropped its watches with the connection.
            self._watches.renew_all()
        for watcher in self._session_watchers:
            watcher(_EVENTS[contact])

    def watch_session(self, watcher: SessionWatcher) -> None:
        self._session_watchers.append(watcher)

    # -- reading --------------------------------------------------------------------------------

    async def get(self, path: str) -> Node | None:
        found = await self._get_with_stat(path)
        return None if found is None else _node(*found)

    async def children(self, path: str) -> list[str]:
        try:
            return sorted(await self._read("get_children_async", path))
        except NoNodeError:
            return []

    async def read_tree(self, path: str) -> Mapping[str, Node]:
        """Reads many nodes at once. Not a consistent snapshot: concurrent writes may be included or
        not."""
        nodes = await (self._topics() if path == paths.TOPICS else self._levels(path))
        return dict(sorted(nodes.items()))

    async def _levels(self, path: str) -> dict[str, Node]:
        """Level by level."""
        nodes: dict[str, Node] = {}
        level = [path]
        while level:
            found = await self._get_all(level)
            nodes.update({one: _node(*both) for one, both in found.items()})
            parents = [one for one, (_, stat) in found.items() if stat.children_count]
            below = await self._read_all("get_children_async", parents)
            level = [
                f"{parent.rstrip('/')}/{name}"
                for parent, names in below.items()
                for name in sorted(names)
            ]
        return nodes

    async def _topics(self) -> dict[str, Node]:
        """A topic's node names its partitions, so their thousands of nodes need no listing."""
        nodes = {paths.TOPICS: Node(b"", 0, 0, False)}
        topics = await self._get_all(
            [paths.topic_path(t) for t in await self.children(paths.TOPICS)]
        )
        nodes.update({one: _node(*both) for one, both in topics.items()})
        replicas: dict[TopicPartition, tuple[int, ...]] = {}
        for path in topics:
            name = path.rpartition("/")[2]
            # The loader reports what is wrong with it.
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                assigned = paths.decode_topic(nodes[path].data).replicas
                replicas |= {(name, index): some for index, some in assigned.items()}
        found = await self._get_all([paths.state_path(*key) for key in replicas])
        nodes.update({one: _node(*both) for one, both in found.items()})
        lists = await self._get_all(self._eligible_lists(replicas, nodes))
        self._reads_all_lists = False
        nodes.update({one: _node(*both) for one, both in lists.items()})
        return nodes

    def _eligible_lists(
        self, replicas: Mapping[TopicPartition, tuple[int, ...]], nodes: Mapping[str, Node]
    ) -> list[str]:
        """Replicas are eligible to lead only while others are out of sync. Kafka's controllers
        leave such lists behind elsewhere: they are looked for once one was in the way."""
        return [
            paths.eligible_path(*key)
            for key, assigned in replicas.items()
            if self._reads_all_lists
            or len(_in_sync(nodes.get(paths.state_path(*key)))) < len(assigned)
        ]

    async def synchronize(self) -> None:
        """Ensures that our server has seen everything written before this call."""
        await self._read("sync_async", "/")

    async def _get_with_stat(self, path: str) -> tuple[bytes, Any] | None:
        try:
            data, stat = await self._read("get_async", path)
        except NoNodeError:
            return None
        return data, stat

    async def _get_all(self, wanted: Sequence[str]) -> dict[str, tuple[bytes, Any]]:
        """The existing nodes, with their stat."""
        return await self._read_all("get_async", wanted)

    async def _read_all(self, operation: str, wanted: Sequence[str]) -> dict[str, Any]:
        client = self._client
        if client is None:
            raise SessionLost()
        try:
            answers = await client.ask_all(
                getattr(client.kazoo, operation), wanted, self._settings.max_in_flight
            )
        except Expired:
            raise SessionLost() from None
        except NoAnswer as problem:
            raise StoreUnavailable("/", str(problem)) from problem
        found: dict[str, Any] = {}
        for path, answer in zip(wanted, answers, strict=True):
            try:
                # One by one, if the connection was lost in between.
                is_lost = isinstance(answer, Exception) and not isinstance(answer, NoNodeError)
                found[path] = await self._read(operation, path) if is_lost else answer
            except NoNodeError:
                continue
        return {path: one for path, one in found.items() if not isinstance(one, NoNodeError)}

    async def _read(self, operation: str, path: str, **options: Any) -> Any:
        """Repeats the read if its response is lost, which is harmless."""
        try:
            return await self._ask(operation, path, **options)
        except NoAnswer:
            try:
                return await self._ask(operation, path, **options)
            except NoAnswer as problem:
                raise StoreUnavailable(path, str(problem)) from problem

    async def _ask(self, operation: str, path: str, **options: Any) -> Any:
        """One request. Raises NoAnswer if there is no response, NoNodeError if there is no node."""
        client = self._client
        if client is None:
            raise SessionLost()
        try:
            return await client.ask(getattr(client.kazoo, operation), path, **options)
        except Expired:
            raise SessionLost() from None
        except NoNodeError:
            raise
        except KazooException as problem:
            raise store_error(path, problem) from problem

    # -- writing --------------------------------------------------------------------------------

    async def multi(self, operations: Sequence[Operation]) -> list[Outcome]:
        client = self._client
        if client is None:
            raise SessionLost()
        if sum(map(operation_bytes, operations)) > LARGEST_REQUEST_BYTES:
            largest = max(operations, key=operation_bytes)
            raise StoreError(
                largest.path, "too large for ZooKeeper, which accepts up to 1 MB at once"
            )
        transaction = client.kazoo.transaction()
        for operation in operations:
            _add(transaction, operation, self._settings.security.protects_nodes)
        first = operations[0].path if operations else "/"
        try:
            results = await client.ask(transaction.commit_async)
        except Expired:
            raise SessionLost() from None
        except NoAnswer as problem:
            raise StoreUnavailable(first, str(problem)) from problem
        except KazooException as problem:
            raise store_error(first, problem) from problem
        refused = multi_refusal(operations, results)
        if isinstance(refused, NodeExists | NotEmpty):
            self._reads_all_lists = True
        if isinstance(refused, BadVersion):
            raise await self._with_found_version(refused)
        if refused is not None:
            raise refused
        return [_outcome(*pair) for pair in zip(operations, results, strict=True)]

    async def _with_found_version(self, refused: BadVersion) -> BadVersion:
        """Adds the node's version, which ZooKeeper does not report but people want to know."""
        node = await self.get(refused.path)
        return BadVersion(refused.path, refused.expected, ANY_VERSION if not node else node.version)

    # -- watches --------------------------------------------------------------------------------

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        return self._watches.add(path, watcher)


def _in_sync(state: Node | None) -> tuple[int, ...]:
    """Empty if there is no state, or one that the loader will complain about."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        return paths.decode_state(state.data).isr if state is not None else ()
    return ()


def _node(data: bytes, stat: Any) -> Node:
    return Node(bytes(data or b""), stat.version, stat.czxid, stat.ephemeralOwner != 0)


def _add(transaction: Any, operation: Operation, protects_nodes: bool) -> None:
    if isinstance(operation, Create):
        transaction.create(
            operation.path,
            operation.data,
            acl_of(operation.path) if protects_nodes else None,
            ephemeral=operation.ephemeral,
            sequence=operation.sequence,
        )
    elif isinstance(operation, SetData):
        transaction.set_data(operation.path, operation.data, operation.version)
    elif isinstance(operation, Delete):
        transaction.delete(operation.path, operation.version)
    else:
        transaction.check(operation.path, operation.version)


def _outcome(operation: Operation, result: Any) -> Outcome:
    if isinstance(operation, Create):
        return Outcome(str(result), 0)
    if isinstance(operation, SetData):
        return Outcome(operation.path, result.version)
    return Outcome(operation.path, operation.version)
