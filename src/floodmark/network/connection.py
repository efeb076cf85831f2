"""One client's connection: reads a request, is muted until its response is sent, reads the next.

Created by `network.acceptor`, owned by a `network.processor.Processor`. The transport receives into
the connection's `FrameBuffer`; a whole frame goes to the request channel. A connection has at most
one request under way, which is what keeps responses in the order of requests (SPEC N2), and takes
up no other while the peer does not take what was answered, so its memory is bounded by a request
and the answers of one turn.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from floodmark.network.framing import FrameBuffer, FrameTooLarge
from floodmark.network.request_channel import NO_ROOM, TAKEN, Outcome, RequestChannel, Response
from floodmark.network.transfer import SMALL_BYTES, Outbox

if TYPE_CHECKING:
    from floodmark.network.processor import Processor

logger = logging.getLogger(__name__)

# Reasons that differ in a number are of one kind: garbage brings another length each time.
_NUMBERS = re.compile(r"\d+")

FRAMES_OF_A_TURN = range(16)
"""A client that sends a thousand requests at once must not keep the others waiting for all."""


class Shortcut(Protocol):
    """What an API knows of some requests of a peer, so well that it need not decode them."""

    def outcome_of(self, frame: memoryview) -> Outcome:
        """None for a request that it does not know."""


@dataclass(slots=True)
class Peer:
    """Who is at the other end, for the APIs: they see this, never the socket."""

    connection_id: str
    host: str
    listener_name: str
    security_protocol: str
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    shortcut: Shortcut | None = None
    # What an API has learned of its answers to this peer, by what they have in common.
    answers: dict[Any, Any] = field(default_factory=dict)


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_abandon",
        "_channel",
        "_frames",
        "_outbox",
        "_paused_writing",
        "_processor",
        "_transport",
        "_unsubmitted",
        "is_active",
        "is_paused_reading",
        "last_active_ms",
        "peer",
    )

    def __init__(
        self,
        processor: Processor,
        peer: Peer,
        client: socket.socket,
        channel: RequestChannel,
        max_frame_bytes: int,
    ) -> None:
        self.peer = peer
        self._processor = processor
        self._channel = channel
        self._frames = FrameBuffer(max_frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._outbox = Outbox(client)
        # Whether nothing is received at present, not even the end of the connection.
        self.is_paused_reading = False
        self._paused_writing = False
        self._unsubmitted: memoryview | None = None
        self._abandon: Callable[[], None] | None = None
        # Whether it was answered since the idle sweep came by, which then notes the time.
        self.is_active = False
        self.last_active_ms = processor.clock.monotonic_ms()

    @property
    def connection_id(self) -> str:
        return self.peer.connection_id

    @property
    def is_muted(self) -> bool:
        return self._frames.held_end != 0

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # What an API has learned refers to the peer: kept, the two would wait for the collector.
        self.peer.shortcut = None
        if self._abandon is not None:
            self._abandon()
        self._processor.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        frames = self._frames
        return frames.view[frames.end :] if frames.end else frames.view

    def buffer_updated(self, nbytes: int) -> None:
        self._processor.bytes_in += nbytes
        frames = self._frames
        frames.end += nbytes
        if frames.held_end or self._paused_writing:
            if frames.is_full:
                self._pause_reading()
        else:
            self._advance()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._paused_writing = True

    def resume_writing(self) -> None:
        self._paused_writing = False
        # Whoever takes his answer slowly is not idle.
        self.is_active = True
        self.send_outbox()
        self._go_on()

    # What the request channel calls

    def respond(self, response: Response) -> None:
        """The answer of a request that has taken its time. A lost peer's is dropped."""
        if self._transport is None:
            return
        self._abandon = None
        self.is_active = True
        self._frames.release()
        if response is not None:
            try:
                self._outbox.add(response)
            except OSError as problem:
                self._cannot_read(problem)
            self.send_outbox()
        if self._frames.end:
            # Not from here: who answered us may be in the middle of another connection's request.
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._resume_reading()

    def abort(self, reason: str) -> None:
        """Ends this connection, and only this one."""
        times = self._processor.aborts.worth_telling(_NUMBERS.sub("#", reason))
        if times:
            logger.warning(
                "closing the connection of %s: %s (%d times by now)",
                self.connection_id,
                reason,
                times,
            )
        self.close()

    def parked(self, abandon: Callable[[], None]) -> None:
        self._abandon = abandon

    def channel_has_room(self) -> None:
        frame, self._unsubmitted = self._unsubmitted, None
        if frame is None or self._transport is None:
            return
        response = self._channel.submit(self, frame)
        if response is NO_ROOM:
            self._wait_for_room(frame)
        elif response is not TAKEN:
            self.respond(response)

    def close(self) -> None:
        self.send_outbox()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def give_back_memory(self) -> None:
        """Called by the idle sweep."""
        if not self.is_muted:
            self._frames.shrink()

    # The reading loop

    def _go_on(self) -> None:
        if not self.is_muted and not self._paused_writing and self._transport is not None:
            self._advance()

    def _advance(self) -> None:
        """Submits frames until one has to wait, the peer stops taking answers, none is left, or it
        is the others' turn."""
        frames, outbox = self._frames, self._outbox
        try:
            for _ in FRAMES_OF_A_TURN:
                frame = frames.next_frame()
                if frame is None:
                    self._resume_reading()
                    break
                response = self._channel.submit(self, frame)
                if response is TAKEN:
                    break
                if response is NO_ROOM:
                    self._wait_for_room(frame)
                    break
                if response is not None:
                    outbox.add(response)
                frames.release()
                self.is_active = True
                if not frames.end:
                    if self.is_paused_reading:
                        self._resume_reading()
                    break
                if outbox.size_bytes > SMALL_BYTES:
                    self.send_outbox()
                if self._paused_writing or self._transport is None:
                    break
            else:
                asyncio.get_running_loop().call_soon(self._go_on)
        except FrameTooLarge as problem:
            self.abort(str(problem))
        except OSError as problem:
            self._cannot_read(problem)
        except MemoryError:
            self.abort("there is no memory for its request or its answer")
        if frames.end and frames.is_full:
            self._pause_reading()
        if outbox.size_bytes > SMALL_BYTES:
            self.send_outbox()
        elif outbox.size_bytes:
            self._processor.send_soon(self)

    def send_outbox(self) -> None:
        """What is not with the transport yet, as far as the peer takes it; `resume_writing` goes
        on with the rest."""
        outbox, transport = self._outbox, self._transport
        try:
            while outbox.size_bytes and not self._paused_writing:
                if transport is None or transport.is_closing():
                    return
                self._processor.bytes_out += outbox.write_to(transport)
        except (OSError, RuntimeError) as problem:
            # A file that was cut, or a transport that closed this very moment.
            outbox.clear()
            self.abort(f"its answer cannot be sent: {problem}")

    def _cannot_read(self, problem: OSError) -> None:
        """An answer with a piece of a file that was cut or closed, or on a disk that fails. Those
        before it are sent."""
        self.abort(f"its answer cannot be read: {problem}")

    def _wait_for_room(self, frame: memoryview) -> None:
        """The channel took nothing of this and will say when it has room again."""
        self._unsubmitted = frame
        self._pause_reading()

    def _pause_reading(self) -> None:
        if not self.is_paused_reading and self._transport is not None:
            self._transport.pause_reading()
            self.is_paused_reading = True
            self.is_active = True

    def _resume_reading(self) -> None:
        if self.is_paused_reading and self._transport is not None:
            self._transport.resume_reading()
            self.is_paused_reading = False
