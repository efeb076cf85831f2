"""Listens on one address and hands new connections round robin to the processors.

Enforces the limits (SPEC N4): closes a connection above `max.connections.per.ip` immediately, and
at `max.connections` stops accepting until one closes. Like Kafka's acceptor, it measures the share
of time it was blocked.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from floodmark.clock import Clock
from floodmark.network.connection import Peer
from floodmark.network.creation_rates import CreationRates
from floodmark.network.plain_port import PlainPort
from floodmark.network.port import Port
from floodmark.network.processor import Processor
from floodmark.network.tls_port import Encryption, TlsPort, new_scratch
from floodmark.occurrences import Occurrences, repeated
from floodmark.security.addresses import canonical_address

logger = logging.getLogger(__name__)

REST_S = 1.0
"""How long an acceptor that cannot accept waits before it retries."""

LEAST_BACKLOG = 1024
"""Kafka's 50 assumes an acceptor with its own thread.

Ours shares the loop with requests: in a burst, every connection that finds the queue full would be
a second late.
"""

MOST_DELAYED = 1000
"""How many connections from addresses that open them too fast are closed late. Others are closed at
once, because each delayed one takes a file descriptor."""

ACCEPTS_PER_WAKE_UP = 64
"""Bounds how long a burst of new connections keeps the loop from serving existing ones."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A name, a security protocol, and the address to bind. Port 0 picks a free port."""

    name: str
    security_protocol: str
    host: str
    port: int
    encryption: Encryption | None = None


@dataclass(slots=True)
class ConnectionLimits:
    """Counts shared by all acceptors of a broker."""

    max_connections: int
    max_per_address: int
    per_address_overrides: dict[str, int] = field(default_factory=dict)
    max_per_listener: dict[str, int] = field(default_factory=dict)
    total: int = 0
    by_address: Counter[str] = field(default_factory=Counter)
    by_listener: Counter[str] = field(default_factory=Counter)
    rates: CreationRates | None = None

    def is_full(self, listener: str) -> bool:
        most = self.max_per_listener.get(listener, self.max_connections)
        return self.total >= self.max_connections or self.by_listener[listener] >= most

    def admits(self, address: str) -> bool:
        limit = self.per_address_overrides.get(address, self.max_per_address)
        return self.by_address[address] < limit

    def count(self, address: str, listener: str) -> None:
        self.total += 1
        self.by_listener[listener] += 1
        self.by_address[address] += 1

    def release(self, address: str, listener: str) -> None:
        self.total -= 1
        self.by_listener[listener] -= 1
        self.by_address[address] -= 1
        if self.by_address[address] <= 0:
            del self.by_address[address]


class Acceptor:
    def __init__(
        self,
        listener: Listener,
        processors: Sequence[Processor],
        limits: ConnectionLimits,
        clock: Clock,
        *,
        backlog: int,
        on_room: Callable[[], None],
    ) -> None:
        self.listener = listener
        self._processors = processors
        self._limits = limits
        self._clock = clock
        self._on_room = on_room
        self._accepted = 0
        self._blocked_since_ms: float | None = None
        self._blocked_ms = 0.0
        self._measured_since_ms = clock.monotonic_ms()
        self._problems = Occurrences()
        self._resting: asyncio.TimerHandle | None = None
        # Connections to close later, because their address opens them too fast.
        self._delayed: set[socket.socket] = set()
        self._scratch = new_scratch() if listener.encryption is not None else None
        self._socket = _bind(listener, backlog)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for client in list(self._delayed):
            self._close_delayed(client)

    def blocked_share(self) -> float:
        """The share of time since the last call that `max.connections` blocked this acceptor."""
        now_ms = self._clock.monotonic_ms()
        blocked = self._blocked_ms
        if self._blocked_since_ms is not None:
            blocked += now_ms - self._blocked_since_ms
            self._blocked_since_ms = now_ms
        share = blocked / max(now_ms - self._measured_since_ms, 1e-6)
        self._blocked_ms, self._measured_since_ms = 0.0, now_ms
        return min(share, 1.0)

    def unblock(self) -> None:
        """There may be room below `max.connections` again."""
        if self._blocked_since_ms is None or self._loop is None or self._is_full():
            return
        self._blocked_ms += self._clock.monotonic_ms() - self._blocked_since_ms
        self._blocked_since_ms = None
        self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def _is_full(self) -> bool:
        return self._limits.is_full(self.listener.name)

    def _block(self) -> None:
        assert self._loop is not None
        self._blocked_since_ms = self._clock.monotonic_ms()
        self._loop.remove_reader(self._socket.fileno())
        limits, name = self._limits, self.listener.name
        logger.warning(
            "reached max.connections (%d): listener %s accepts no more until one closes",
            min(limits.max_connections, limits.max_per_listener.get(name, limits.max_connections)),
            name,
        )

    def _accept_some(self) -> None:
        for _ in range(ACCEPTS_PER_WAKE_UP):
            if self._is_full():
                self._block()
                return
            try:
                client, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                self._rest(problem)
                return
            self._admit(client, canonical_address(address[0]), address[1])
            if self._rests_for_its_rate():
                return

    def _rests_for_its_rate(self) -> bool:
        """Whether connections arrive too fast, so that this listener pauses accepting."""
        rates, loop = self._limits.rates, self._loop
        delay_ms = 0 if rates is None else rates.listener_delay_ms(self.listener.name)
        if not delay_ms:
            return False
        assert loop is not None
        loop.remove_reader(self._socket.fileno())
        self._resting = loop.call_later(delay_ms / 1000, self._wake)
        return True

    def _close_later(self, client: socket.socket, delay_ms: int) -> None:
        assert self._loop is not None
        self._delayed.add(client)
        self._loop.call_later(delay_ms / 1000, self._close_delayed, client)

    def _close_delayed(self, client: socket.socket) -> None:
        self._delayed.discard(client)
        client.close()

    def _rest(self, problem: OSError) -> None:
        """Probably out of file descriptors.

        The socket stays readable, so without a pause the loop would do nothing but retry.
        """
        self._tell(problem)
        assert self._loop is not None
        self._loop.remove_reader(self._socket.fileno())
        self._resting = self._loop.call_later(REST_S, self._wake)

    def _tell(self, problem: OSError) -> None:
        times = self._problems.worth_telling(str(problem))
        if times:
            logger.error(
                "listener %s cannot accept%s: %s",
                self.listener.name,
                repeated(times),
                problem,
            )

    def _wake(self) -> None:
        self._resting = None
        if self._loop is not None and self._blocked_since_ms is None:
            self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def _admit(self, client: socket.socket, host: str, port_number: int) -> None:
        if not self._limits.admits(host):
            times = self._problems.worth_telling(host)
            if times:
                logger.warning(
                    "too many connections from %s (max.connections.per.ip): closed %d by now",
                    host,
                    times,
                )
            client.close()
            return
        delay_ms = 0 if self._limits.rates is None else self._limits.rates.address_delay_ms(host)
        if delay_ms:
            if len(self._delayed) < MOST_DELAYED:
                self._close_later(client, delay_ms)
            else:
                client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Otherwise we would never notice a peer that lost power during its request.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        processor = self._processors[self._accepted % len(self._processors)]
        local = client.getsockname()
        peer = Peer(
            connection_id=f"{local[0]}:{local[1]}-{host}:{port_number}-{self._accepted}",
            host=host,
            listener_name=self.listener.name,
            security_protocol=self.listener.security_protocol,
        )
        port = self._port_of(client, peer)
        try:
            processor.adopt(peer, port, lambda: self._released(host))
        except OSError as problem:
            port.close()
            self._tell(problem)
            return
        self._accepted += 1
        self._limits.count(host, self.listener.name)

    def _port_of(self, client: socket.socket, peer: Peer) -> Port:
        assert self._loop is not None
        plain = PlainPort(client, self._loop)
        encryption = self.listener.encryption
        if encryption is None or self._scratch is None:
            return plain

        def established(certificate: bytes | None) -> None:
            if peer.security_protocol == "SSL":
                peer.authenticate(encryption.principal_of(certificate))

        def failed(reason: str) -> None:
            encryption.handshake_failed(peer.host, reason)

        return TlsPort(plain, encryption.context, self._loop, self._scratch, established, failed)

    def _released(self, host: str) -> None:
        self._limits.release(host, self.listener.name)
        self._on_room()


def _bind(listener: Listener, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((listener.host, listener.port))
        bound.listen(max(backlog, LEAST_BACKLOG))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        # The system says what went wrong, but not for which listener.
        text = f"cannot listen on {listener.host}:{listener.port}: {error.strerror}"
        raise OSError(error.errno, text) from error
    return bound
