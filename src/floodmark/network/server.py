"""Starts and stops the network side: acceptors, processors, request channel and the rest.

Made by `broker.network_settings`, with the request handler; nothing in this room knows the APIs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from floodmark.clock import Clock
from floodmark.network.acceptor import Acceptor, ConnectionLimits, Listener
from floodmark.network.processor import STRANGERS, Processor, StrangerLimits
from floodmark.network.request_channel import Handler, RequestChannel
from floodmark.network.turns import Turns
from floodmark.patient_timer import PatientTimer
from floodmark.security.addresses import canonical_address

SWEEP_INTERVAL_MS = 5_000
"""How often to look for idle connections: far below `connections.max.idle.ms`, nearly free."""


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    network_threads: int = 3
    io_threads: int = 8
    queued_max_requests: int = 500
    max_frame_bytes: int = 100 * 1024 * 1024
    max_idle_ms: int = 600_000
    max_connections: int = 2**31 - 1
    max_connections_per_ip: int = 2**31 - 1
    per_ip_overrides: dict[str, int] = field(default_factory=dict)
    backlog: int = 50
    strangers: StrangerLimits = STRANGERS


class NetworkServer:
    def __init__(
        self,
        listeners: Sequence[Listener],
        handler: Handler,
        settings: NetworkSettings,
        clock: Clock,
    ) -> None:
        self.channel = RequestChannel(
            handler,
            slots=settings.io_threads,
            capacity=settings.queued_max_requests,
            clock=clock,
        )
        self._settings = settings
        self._clock = clock
        self._turns = Turns(asyncio.get_running_loop())
        self.processors: list[Processor] = []
        self.set_processors(settings.network_threads)
        self.limits = ConnectionLimits(
            settings.max_connections,
            settings.max_connections_per_ip,
            dict(settings.per_ip_overrides),
        )
        self.acceptors: list[Acceptor] = []
        try:
            for listener in listeners:
                self.acceptors.append(
                    Acceptor(
                        listener,
                        self.processors,
                        self.limits,
                        clock,
                        backlog=settings.backlog,
                        on_room=self._unblock_acceptors,
                    )
                )
        except OSError:
            self._close_acceptors()
            raise
        self._clock = clock
        self._sweeper: PatientTimer | None = None

    def port(self, listener_name: str) -> int:
        return next(a.port for a in self.acceptors if a.listener.name == listener_name)

    def start(self) -> None:
        """Starts accepting. The constructor has bound the sockets."""
        for acceptor in self.acceptors:
            acceptor.start()
        self._sweep_later()

    def set_processors(self, count: int) -> None:
        """Call only before the start, while no processor has connections."""
        self.processors[:] = [
            Processor(
                index,
                self._turns,
                self.channel,
                self._clock,
                max_frame_bytes=self._settings.max_frame_bytes,
                max_idle_ms=self._settings.max_idle_ms,
                strangers=self._settings.strangers,
            )
            for index in range(count)
        ]

    def limit_connections(
        self,
        max_connections: int,
        max_per_address: int,
        per_address_overrides: dict[str, int],
        max_per_listener: dict[str, int],
    ) -> None:
        """Changes the limits for future connections. Existing ones stay."""
        limits = self.limits
        limits.max_connections = max_connections
        limits.max_per_address = max_per_address
        limits.per_address_overrides = {
            canonical_address(address): most for address, most in per_address_overrides.items()
        }
        limits.max_per_listener = max_per_listener
        self._unblock_acceptors()

    def stop_accepting(self) -> None:
        self._close_acceptors()

    async def close(self) -> None:
        self._close_acceptors()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.channel.close()
        for processor in self.processors:
            processor.close()

    def _sweep_later(self) -> None:
        now_ms = self._clock.monotonic_ms
        self._sweeper = PatientTimer(SWEEP_INTERVAL_MS, now_ms, self._sweep)

    def _sweep(self, _fired_ms: float) -> None:
        for processor in self.processors:
            processor.sweep()
        self._sweep_later()

    def _unblock_acceptors(self) -> None:
        for acceptor in self.acceptors:
            acceptor.unblock()

    def _close_acceptors(self) -> None:
        for acceptor in self.acceptors:
            acceptor.close()
        self.acceptors = []
