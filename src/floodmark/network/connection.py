"""One client's connection: reads a request, is muted until its response is sent, reads the next.

Created by `network.acceptor`, owned by a `network.processor.Processor`, given its turns by the
`network.poller`. It receives into its `FrameBuffer`; a whole frame goes to the request channel. A
connection has at most one request under way, which is what keeps responses in the order of requests
(SPEC N2), and takes up no other while the peer does not take what was answered, so its memory is
bounded by a request and the answers of one turn.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from floodmark.network.framing import FrameBuffer, FrameTooLarge
from floodmark.network.poller import Poller
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


class Connection:
    __slots__ = (
        "_abandon",
        "_channel",
        "_frames",
        "_is_blocked",
        "_is_ending",
        "_is_watched_for_room",
        "_outbox",
        "_poller",
        "_processor",
        "_socket",
        "_unsubmitted",
        "is_active",
        "is_open",
        "is_paused_reading",
        "last_active_ms",
        "peer",
    )

    def __init__(
        self,
        processor: Processor,
        poller: Poller,
        peer: Peer,
        client: socket.socket,
        channel: RequestChannel,
        max_frame_bytes: int,
    ) -> None:
        self.peer = peer
        self._processor = processor
        self._poller = poller
        self._socket = client
        self._channel = channel
        self._frames = FrameBuffer(max_frame_bytes)
        self._outbox = Outbox(client)
        # Whether the peer does not take what it is sent at present.
        self._is_blocked = False
        # Whether the peer has closed its end, and what came before is still worked on.
        self._is_ending = False
        # Whether the poller looks for the peer to take something again.
        self._is_watched_for_room = False
        # Whether nothing is received at present, not even that the peer has closed its end.
        self.is_paused_reading = False
        self._unsubmitted: memoryview | None = None
        self._abandon: Callable[[], None] | None = None
        self.is_open = True
        # Whether it was answered since the idle sweep came by, which then notes the time.
        self.is_active = False
        self.last_active_ms = processor.clock.monotonic_ms()

    @property
    def connection_id(self) -> str:
        return self.peer.connection_id

    @property
    def is_muted(self) -> bool:
        return self._frames.held_end != 0

    # What the poller calls

    def receive(self) -> None:
        frames = self._frames
        try:
            count = self._socket.recv_into(frames.view[frames.end :] if frames.end else frames.view)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._end()
            return
        self._processor.bytes_in += count
        frames.end += count
        if frames.held_end or self._is_blocked:
            self._watch()
        else:
            self._take_up()

    def go_on(self) -> None:
        if self.is_open and not self.is_muted and not self._is_blocked:
            self._take_up()

    def send(self) -> None:
        try:
            self._processor.bytes_out += self._outbox.send()
        except (ConnectionError, TimeoutError):
            self.close()
        except OSError as problem:
            self.abort(f"its answer cannot be sent: {problem}")
        if self._outbox.size_bytes or self._is_blocked:
            self._is_blocked = self._outbox.size_bytes > 0
            self._watch()

    def send_rest(self) -> None:
        # Whoever takes his answer slowly is not idle.
        self.is_active = True
        self.send()
        self.go_on()

    def close(self) -> None:
        """What the peer does not take at once of its answers is lost."""
        if not self.is_open:
            return
        self.is_open = False
        try:
            self._outbox.send()
        except OSError:
            pass
        finally:
            self._outbox.clear()
            self._poller.forget(self._socket.fileno(), self)
            self._socket.close()
            # Not from here: who closes us may be in the middle of our request.
            asyncio.get_running_loop().call_soon(self._closed)

    def _closed(self) -> None:
        # What an API has learned refers to the peer: kept, the two would wait for the collector.
        self.peer.shortcut = None
        if self._abandon is not None:
            self._abandon()
        self._processor.forget(self)

    # What the request channel calls

    def respond(self, response: Response) -> None:
        """The answer of a request that has taken its time. A lost peer's is dropped."""
        if not self.is_open:
            return
        self._abandon = None
        self.is_active = True
        self._frames.release()
        if response is not None:
            try:
                self._outbox.add(response)
            except OSError as problem:
                self._cannot_read(problem)
                return
            self.send()
        if self._frames.end or self._is_ending:
            # Not from here: who answered us may be in the middle of another connection's request.
            self._poller.go_on_soon(self)
        else:
            self._watch()

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
        if frame is None or not self.is_open:
            return
        response = self._channel.submit(self, frame)
        if response is NO_ROOM:
            self._unsubmitted = frame
        elif response is TAKEN:
            self._watch()
        else:
            self.respond(response)

    def give_back_memory(self) -> None:
        """Called by the idle sweep."""
        if not self.is_muted:
            self._frames.shrink()

    # The reading loop

    def _take_up(self) -> None:
        """Works on what has been received. Whoever is blocked then goes on by `send_rest`."""
        self._advance()
        if self._outbox.size_bytes and not self._is_blocked:
            self._poller.answered.append(self)

    def _advance(self) -> None:
        """Submits frames until one has to wait, the peer stops taking answers, none is left, or it
        is the others' turn. The answers are in the outbox then."""
        frames, outbox = self._frames, self._outbox
        is_done = False
        try:
            for _ in FRAMES_OF_A_TURN:
                frame = frames.next_frame()
                if frame is None:
                    is_done = True
                    break
                response = self._channel.submit(self, frame)
                if response is TAKEN:
                    break
                if response is NO_ROOM:
                    self._unsubmitted = frame
                    break
                if response is not None:
                    outbox.add(response)
                frames.release()
                self.is_active = True
                if not frames.end:
                    is_done = True
                    break
                if outbox.size_bytes > SMALL_BYTES:
                    self.send()
                    if self._is_blocked or not self.is_open:
                        break
            else:
                self._poller.go_on_soon(self)
        except FrameTooLarge as problem:
            self.abort(str(problem))
        except OSError as problem:
            self._cannot_read(problem)
        except MemoryError:
            self.abort("there is no memory for its request or its answer")
        if is_done and self._is_ending:
            self.close()
        elif frames.end or self.is_paused_reading:
            self._watch()

    def _end(self) -> None:
        """The peer has closed its end. As with Kafka, what it has asked for before is done first: a
        producer with acks=0 may just leave. But who waits for an event waits no more."""
        frames = self._frames
        if frames.end > frames.held_end and not self._is_blocked and self._abandon is None:
            self._is_ending = True
            self._watch()
            self._poller.go_on_soon(self)
        else:
            self.close()

    def _cannot_read(self, problem: OSError) -> None:
        """An answer with a piece of a file that was cut or closed, or on a disk that fails. Those
        before it are sent."""
        self.abort(f"its answer cannot be read: {problem}")

    def _watch(self) -> None:
        """For what the poller is to look from now on. Without room, in the buffer or in the
        channel, nothing is received: back-pressure."""
        if not self.is_open:
            return
        poller, number = self._poller, self._socket.fileno()
        pauses = self._is_ending or self._frames.is_full or self._unsubmitted is not None
        if pauses != self.is_paused_reading:
            self.is_paused_reading = pauses
            self.is_active = True
            if pauses:
                poller.ignore_reading(number)
            else:
                poller.watch_reading(number, self)
        if self._is_blocked != self._is_watched_for_room:
            self._is_watched_for_room = self._is_blocked
            self.is_active = True
            if self._is_blocked:
                poller.watch_writing(number, self)
            else:
                poller.ignore_writing(number)
