"""One client's connection: reads a request, stays muted until its response is sent, and repeats.

Created and owned by a `network.processor.Processor`, served by `network.turns`. It receives from
its port into its `FrameBuffer`, and passes whole frames to the request channel. `network.states`
defines what may happen when. A connection has at most one request in progress, which keeps
responses in the order of requests (SPEC N2). It starts no other while the peer does not accept
responses, so its memory is bounded by one request and the responses of one turn.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from floodmark.network.framing import FrameBuffer, FrameTooLarge
from floodmark.network.port import Port
from floodmark.network.principal import ANONYMOUS, Principal
from floodmark.network.request_channel import (
    NO_ROOM,
    TAKEN,
    NoAnswerYet,
    Outcome,
    RequestChannel,
    Response,
    Throttled,
)
from floodmark.network.states import NEW_STATE
from floodmark.network.transfer import SMALL_BYTES, Answer, Outbox
from floodmark.network.turns import Turns
from floodmark.occurrences import repeated

if TYPE_CHECKING:
    from floodmark.network.processor import Processor

logger = logging.getLogger(__name__)

# Reasons that differ only in a number count as one: each piece of garbage has another length.
_NUMBERS = re.compile(r"\d+")

FRAMES_OF_A_TURN = range(16)
"""A client that sends a thousand requests at once must not make the others wait for all."""


class Prepared(Protocol):
    """What the APIs have prepared for a peer's further requests (`apis.prepared`)."""

    @property
    def generation(self) -> int:
        """The generation of ACLs and quotas under which the requests were prepared."""

    @property
    def outcome_of(self) -> Callable[[memoryview], Outcome] | None:
        """Returns the outcome of a prepared request, None for any other.

        None if none is prepared.
        """


class Authentication(Protocol):
    """What the APIs remember about a peer that authenticates with SASL."""

    @property
    def is_raw(self) -> bool:
        """Whether the next frame is a raw token instead of a request."""

    def close(self) -> None: ...


@dataclass(slots=True)
class Peer:
    """The other end, as the APIs see it: they never see the socket."""

    connection_id: str
    host: str
    listener_name: str
    security_protocol: str
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    prepared: Prepared | None = None
    # None until the peer has authenticated; `authenticate` and `forget_principal` change it.
    principal: Principal | None = field(init=False)
    # The peer's SASL state, for the APIs.
    authentication: Authentication | None = None
    # Called once the peer has authenticated, to lift the limits on unauthenticated peers.
    on_authenticated: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.principal = ANONYMOUS if self.security_protocol == "PLAINTEXT" else None

    def authenticate(self, principal: Principal) -> None:
        """The peer has proved its identity."""
        self.principal = principal
        if self.on_authenticated is not None:
            self.on_authenticated()

    def forget_principal(self) -> None:
        """The peer must authenticate again, and is unauthenticated until then."""
        self.principal = None
        # Prepared requests skip the gates.
        self.prepared = None


class Connection:
    __slots__ = (
        "_abandon",
        "_channel",
        "_frames",
        "_outbox",
        "_port",
        "_processor",
        "_refused",
        "_turns",
        "_watched",
        "is_active",
        "last_active_ms",
        "peer",
        "state",
        "stranger_since_ms",
        "when_sent",
    )

    def __init__(
        self,
        processor: Processor,
        turns: Turns,
        peer: Peer,
        port: Port,
        channel: RequestChannel,
        max_frame_bytes: int,
    ) -> None:
        self.peer = peer
        self.state = NEW_STATE
        # The state that decided which port events we watch.
        self._watched = NEW_STATE
        self._processor = processor
        self._turns = turns
        self._port = port
        self._channel = channel
        self._frames = FrameBuffer(max_frame_bytes)
        if peer.principal is None:
            self._frames.max_frame_bytes = min(max_frame_bytes, processor.strangers.max_frame_bytes)
            peer.on_authenticated = partial(self._lift_limit, max_frame_bytes)
        self._outbox = Outbox(port)
        # The request that the channel refused for lack of room.
        self._refused: memoryview | None = None
        # Abandons the parked request.
        self._abandon: Callable[[], None] | None = None
        # Whether it was served since the last idle sweep, which then records the time.
        self.is_active = False
        # Called once, when the port has accepted all responses. For measuring request times.
        self.when_sent: Callable[[], None] | None = None
        self.last_active_ms = processor.clock.monotonic_ms()
        # Since when the peer has been unauthenticated, for the sweep.
        self.stranger_since_ms: float | None = None if peer.principal else self.last_active_ms

    @property
    def connection_id(self) -> str:
        return self.peer.connection_id

    @property
    def is_paused(self) -> bool:
        """Whether we currently receive nothing, not even that the peer has closed its end."""
        return self._watched.is_paused

    def start(self) -> None:
        """Raises OSError if the system cannot watch another socket."""
        self._port.watch_receiving(partial(self._turns.receive, self))

    # Called by turns

    def receive(self) -> None:
        frames = self._frames
        room = frames.view[frames.end :] if frames.end else frames.view
        receive_into = self._port.receive_into
        try:
            count = receive_into(room)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._end()
            return
        self._processor.bytes_in += count
        frames.end += count
        if self.state.takes_requests:
            self._take_up()
        else:
            self._watch()

    def go_on(self) -> None:
        if self.state.takes_requests:
            self._take_up()

    def send(self) -> None:
        outbox = self._outbox
        try:
            self._processor.bytes_out += outbox.send()
        except (ConnectionError, TimeoutError):
            self.close()
        except OSError as problem:
            self.abort(f"its response cannot be sent: {problem}")
        if outbox.size_bytes or self.state.is_blocked:
            self.state = self.state.stuck if outbox.size_bytes else self.state.sent
            self._watch()
        if self.when_sent is not None and not outbox.size_bytes:
            when_sent, self.when_sent = self.when_sent, None
            when_sent()

    def send_rest(self) -> None:
        # A peer that accepts its responses slowly is not idle.
        self.is_active = True
        self.send()
        self.go_on()

    def close(self) -> None:
        """Drops responses that the peer does not accept immediately."""
        if not self.state.is_open:
            return
        self.state = self.state.closed
        try:
            self._outbox.send()
        except OSError:
            pass
        finally:
            self._outbox.clear()
            self._turns.forget(self)
            self._port.close()
            # Not from here: the caller may be in the middle of our request.
            asyncio.get_running_loop().call_soon(self._closed)

    def _lift_limit(self, max_frame_bytes: int) -> None:
        self._frames.max_frame_bytes = max_frame_bytes
        self.peer.on_authenticated = None

    def _closed(self) -> None:
        # It refers to the peer. Keeping it would leave both to the garbage collector.
        self.peer.prepared = None
        self.peer.on_authenticated = None
        if self.peer.authentication is not None:
            self.peer.authentication.close()
            self.peer.authentication = None
        if self._abandon is not None:
            self._abandon()
        self._processor.forget(self)

    # Called by the request channel

    def respond(self, response: Response) -> None:
        """Sends the response to a deferred request. Drops it if the peer is lost."""
        if not self.state.is_open:
            return
        self._abandon = None
        self.is_active = True
        answer, throttle_ms = response if isinstance(response, Throttled) else (response, 0)
        if answer is not None:
            try:
                self._outbox.add(answer)
            except OSError as problem:
                self._cannot_read(problem)
                return
            self.send()
        if throttle_ms:
            self._throttle(throttle_ms)
            return
        self._finish_request()
        self._wait_for_next()

    def _finish_request(self) -> None:
        self.state = self.state.answered
        self._frames.release()

    def _wait_for_next(self) -> None:
        if self._frames.end or self.state.is_ending:
            # Not from here: the caller may be in the middle of another connection's request.
            self._turns.go_on_soon(self)
        else:
            self._watch()

    def abort(self, reason: str, last_words: Answer | None = None) -> None:
        """Closes this connection, and only this one. Sends `last_words` first, if given."""
        if last_words is not None and self.state.is_open:
            self._outbox.add(last_words)
        times = self._processor.aborts.worth_telling(_NUMBERS.sub("#", reason))
        if times:
            logger.warning(
                "closing the connection of %s: %s%s",
                self.connection_id,
                reason,
                repeated(times),
            )
        self.close()

    def parked(self, abandon: Callable[[], None]) -> None:
        self.state = self.state.parked
        self._abandon = abandon

    def channel_has_room(self) -> None:
        frame, self._refused = self._refused, None
        if frame is None or not self.state.is_open:
            return
        self.state = self.state.submitted
        response = self._channel.submit(self, frame)
        if response is NO_ROOM:
            self._refuse(frame)
        elif response is TAKEN:
            self._watch()
        else:
            self.respond(response)

    def give_back_memory(self) -> None:
        """Called by the idle sweep."""
        if not self.state.is_muted:
            self._frames.shrink()

    # The reading loop

    def _take_up(self) -> None:
        """Works on received data. A blocked connection continues with `send_rest`."""
        try:
            self._advance()
        except FrameTooLarge as problem:
            self.abort(str(problem))
        except OSError as problem:
            self._cannot_read(problem)
        except MemoryError:
            self.abort("out of memory for its request or response")
        if self._frames.end or self._watched.is_paused:
            self._watch()
        if self._outbox.size_bytes and not self.state.is_blocked:
            self._turns.answered.append(self)

    def _advance(self) -> None:
        """Submits frames until one must wait, none are left, or others get their turn.

        Also stops when the peer stops accepting responses. The responses are in the outbox then.
        """
        frames, outbox = self._frames, self._outbox
        for _ in FRAMES_OF_A_TURN:
            frame = frames.next_frame()
            if frame is None:
                break
            self.state = self.state.submitted
            response = self._channel.submit(self, frame)
            if isinstance(response, bytes):
                outbox.add_bytes(response)
            elif isinstance(response, list):
                outbox.add(response)
            elif not self._take(response, frame):
                return
            self.is_active = True
            frames.release()
            self.state = self.state.answered
            if not frames.end:
                break
            if outbox.size_bytes > SMALL_BYTES:
                self.send()
                if not self.state.takes_requests:
                    return
        else:
            self._turns.go_on_soon(self)
            return
        if self.state.is_ending:
            self.close()

    def _take(self, response: Response | NoAnswerYet, frame: memoryview) -> bool:
        """Handles a result of `submit` other than a response.

        Returns False if the request is still in progress: it waits, may have closed the connection,
        or the connection stays muted.
        """
        if response is TAKEN:
            return False
        if response is NO_ROOM:
            self._refuse(frame)
            return False
        answer, throttle_ms = response if isinstance(response, Throttled) else (response, 0)
        if answer is not None:
            self._outbox.add(answer)
        if throttle_ms:
            self.is_active = True
            self._throttle(throttle_ms)
        return not throttle_ms

    def _refuse(self, frame: memoryview) -> None:
        self.state = self.state.refused
        self._refused = frame

    def _throttle(self, throttle_ms: int) -> None:
        """Stays muted for a while (KIP-219): the request counts as in progress although it has been
        answered."""
        asyncio.get_running_loop().call_later(throttle_ms / 1000, self._throttle_is_over)
        self._watch()

    def _throttle_is_over(self) -> None:
        if self.state.is_open:
            self._finish_request()
            self._wait_for_next()

    def _end(self) -> None:
        """The peer has closed its end.

        Like Kafka, we first serve the requests it sent before, because a producer with acks=0 may
        just leave. A request that waits for an event is abandoned.
        """
        frames = self._frames
        if frames.end > frames.held_end and self.state.may_finish:
            self.state = self.state.peer_left
            self._watch()
            self._turns.go_on_soon(self)
        else:
            self.close()

    def _cannot_read(self, problem: OSError) -> None:
        """A file slice in the response was truncated or closed, or its disk failed.

        Responses before it are sent.
        """
        self.abort(f"its response cannot be read: {problem}")

    def _watch(self) -> None:
        """Updates the port events we watch.

        Without room in the buffer or the channel, receives nothing, which is the back-pressure.
        """
        self.state = state = self.state.full if self._frames.is_full else self.state.room
        if not state.is_open:
            return
        before, self._watched = self._watched, state
        if state.is_paused != before.is_paused:
            self.is_active = True
            if state.is_paused:
                self._port.ignore_receiving()
            else:
                self._port.watch_receiving(partial(self._turns.receive, self))
        if state.is_blocked != before.is_blocked:
            self.is_active = True
            if state.is_blocked:
                self._port.watch_sending(partial(self._turns.send_rest, self))
            else:
                self._port.ignore_sending()
