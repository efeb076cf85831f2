"""Connections in memory with handlers made for the test: no sockets, no sleeps."""

import asyncio
from collections.abc import Callable
from typing import Any

from floodmark.network.connection import Connection, Peer
from floodmark.network.port import Port
from floodmark.network.processor import Processor
from floodmark.network.request_channel import RequestChannel
from floodmark.network.turns import Turns
from floodmark.testing.memory_port import WINDOW_BYTES, MemoryClient, MemoryPort
from floodmark.testing.virtual_clock import VirtualClock

SETTLED_AFTER_TURNS = 20


class MemoryServer:
    """What a `NetworkServer` is without its acceptors. All connections have one processor."""

    def __init__(
        self,
        handler: Callable[[Any, memoryview], Any],
        *,
        slots: int = 8,
        capacity: int = 500,
        max_idle_ms: int = 600_000,
        max_frame_bytes: int = 100 << 20,
    ) -> None:
        self.clock = VirtualClock()
        self.channel = RequestChannel(handler, slots=slots, capacity=capacity, clock=self.clock)
        self.processor = Processor(
            0,
            Turns(asyncio.get_running_loop()),
            self.channel,
            self.clock,
            max_frame_bytes=max_frame_bytes,
            max_idle_ms=max_idle_ms,
        )
        self._accepted = 0

    def connect(self, window_bytes: int = WINDOW_BYTES) -> MemoryClient:
        port = MemoryPort(window_bytes)
        self.serve(port)
        return port.client

    def serve(self, port: Port) -> Connection:
        before = set(self.processor.connections)
        self._accepted += 1
        peer = Peer(f"memory-{self._accepted}", "memory", "MEMORY", "PLAINTEXT")
        self.processor.adopt(peer, port, lambda: None)
        (connection,) = self.processor.connections - before
        return connection

    @property
    def connections(self) -> int:
        return len(self.processor.connections)

    @property
    def under_way(self) -> int:
        return self.processor.responses_under_way

    @property
    def is_blocked(self) -> bool:
        return any(connection.state.is_blocked for connection in self.processor.connections)

    async def close(self) -> None:
        await self.channel.close()
        self.processor.close()
        await settled()


async def settled() -> None:
    """Lets the loop turn until everything has happened that waits for nothing but its turn."""
    for _ in range(SETTLED_AFTER_TURNS):
        await asyncio.sleep(0)
