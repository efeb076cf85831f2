"""The states of a connection and the events that change them. PURE.

`network.connection` holds one `State`. When an event happens, it moves to the state that the tables
name for that event, which is an attribute of the old one: `self.state = self.state.answered`. There
is no other way to change state. An event that the tables do not list has no attribute: the
AttributeError is a bug of ours and closes the connection.

A connection has three sides. Each has a table, and each event belongs to one of them.

`Request` is the request in progress, one at a time (SPEC N2):

    state    | SUBMITTED  ANSWERED  PARKED  REFUSED
    ---------+-------------------------------------
    READY    | WORKING
    WORKING  |            READY     PARKED  REFUSED
    PARKED   |            READY
    REFUSED  | WORKING

`Receiving` is the data from the peer:

    state    | FULL     ROOM     PEER_LEFT
    ---------+----------------------------
    OPEN     | PAUSED   OPEN     ENDING
    PAUSED   | PAUSED   OPEN     ENDING
    ENDING   | ENDING   ENDING

`Sending` is the data to the peer:

    state    | STUCK    SENT
    ---------+-----------------
    CLEAR    | BLOCKED  CLEAR
    BLOCKED  | BLOCKED  CLEAR

CLOSED leads from every state to `CLOSED_STATE`, which ignores all further events: the response to a
request may arrive after the connection is gone.

A `State` carries facts that combine the sides:

    fact            | is true when
    ----------------+-----------------------------------------------------------------
    takes_requests  | READY and CLEAR: the next request may be submitted
    is_muted        | WORKING, PARKED or REFUSED: a request is under way
    is_paused       | PAUSED, ENDING or REFUSED: the port is not watched for receiving
    is_blocked      | BLOCKED: the port is watched for sending
    is_ending       | ENDING: the connection closes when the received requests are served
    may_finish      | not PARKED and CLEAR: received requests are served after PEER_LEFT;
                    | otherwise the connection closes at once, and a long poll is abandoned

Encryption adds no states. The port (`network.port`) deals with the TLS handshake, writes that first
need a read, and decrypted bytes that wait.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class Request(Enum):
    READY = "no request is in progress"
    WORKING = "a request is in progress"
    PARKED = "a request waits for an event and can be abandoned"
    REFUSED = "the channel has no room for the request"


class Receiving(Enum):
    OPEN = "bytes are received"
    PAUSED = "the receive buffer is full"
    ENDING = "the peer has closed its end; earlier requests are served"


class Sending(Enum):
    CLEAR = "the peer has accepted all responses"
    BLOCKED = "the peer does not accept responses"


class Event(Enum):
    """The value is the `State` attribute that holds the next state."""

    SUBMITTED = "submitted"
    """A request goes to the channel, for the first time or again after a refusal."""
    ANSWERED = "answered"
    """The request's work is done, with or without a response to send."""
    PARKED = "parked"
    REFUSED = "refused"
    FULL = "full"
    """The receive buffer has no room."""
    ROOM = "room"
    """The receive buffer has room."""
    PEER_LEFT = "peer_left"
    """The peer has closed its end while requests are waiting in the buffer."""
    STUCK = "stuck"
    """The port did not accept all responses."""
    SENT = "sent"
    """The port has accepted all responses."""
    CLOSED = "closed"


Table = dict[Any, dict[Event, Any]]

REQUEST: Table = {
    Request.READY: {Event.SUBMITTED: Request.WORKING},
    Request.WORKING: {
        Event.ANSWERED: Request.READY,
        Event.PARKED: Request.PARKED,
        Event.REFUSED: Request.REFUSED,
    },
    Request.PARKED: {Event.ANSWERED: Request.READY},
    Request.REFUSED: {Event.SUBMITTED: Request.WORKING},
}

RECEIVING: Table = {
    Receiving.OPEN: {
        Event.FULL: Receiving.PAUSED,
        Event.ROOM: Receiving.OPEN,
        Event.PEER_LEFT: Receiving.ENDING,
    },
    Receiving.PAUSED: {
        Event.FULL: Receiving.PAUSED,
        Event.ROOM: Receiving.OPEN,
        Event.PEER_LEFT: Receiving.ENDING,
    },
    Receiving.ENDING: {Event.FULL: Receiving.ENDING, Event.ROOM: Receiving.ENDING},
}

SENDING: Table = {
    Sending.CLEAR: {Event.STUCK: Sending.BLOCKED, Event.SENT: Sending.CLEAR},
    Sending.BLOCKED: {Event.STUCK: Sending.BLOCKED, Event.SENT: Sending.CLEAR},
}

Sides = tuple[Request, Receiving, Sending]


class State:
    """The three sides at one moment, or None when the connection is closed. There is one object per
    reachable combination, so compare them by identity.

    The next states are slots instead of a dict, because every request looks up two of them.
    """

    __slots__ = (
        *(event.value for event in Event),
        "is_blocked",
        "is_ending",
        "is_muted",
        "is_open",
        "is_paused",
        "may_finish",
        "sides",
        "takes_requests",
    )

    submitted: State
    answered: State
    parked: State
    refused: State
    full: State
    room: State
    peer_left: State
    stuck: State
    sent: State
    closed: State

    def __init__(self, sides: Sides | None) -> None:
        self.sides = sides
        self.is_open = sides is not None
        request, receiving, sending = sides or (None, None, None)
        self.takes_requests = request is Request.READY and sending is Sending.CLEAR
        self.is_muted = self.is_open and request is not Request.READY
        self.is_paused = receiving is not Receiving.OPEN or request is Request.REFUSED
        self.is_blocked = sending is Sending.BLOCKED
        self.is_ending = receiving is Receiving.ENDING
        self.may_finish = request is not Request.PARKED and sending is Sending.CLEAR

    def __repr__(self) -> str:
        return f"State({', '.join(side.name for side in self.sides or ()) or 'CLOSED'})"


def _after(sides: Sides, event: Event) -> Sides | None:
    """The next sides according to the tables, or None if they do not list the event."""
    request, receiving, sending = sides
    if event in REQUEST[request]:
        return REQUEST[request][event], receiving, sending
    if event in RECEIVING[receiving]:
        return request, RECEIVING[receiving][event], sending
    if event in SENDING[sending]:
        return request, receiving, SENDING[sending][event]
    return None


def _reachable(begin: Sides) -> dict[Sides, State]:
    """Every state reachable by the tables, linked to its successors."""
    states = {begin: State(begin)}
    unjoined = [begin]
    while unjoined:
        sides = unjoined.pop()
        for event in Event:
            following = _after(sides, event)
            if following is None:
                continue
            if following not in states:
                states[following] = State(following)
                unjoined.append(following)
            setattr(states[sides], event.value, states[following])
        states[sides].closed = CLOSED_STATE
    return states


CLOSED_STATE = State(None)
for _event in Event:
    setattr(CLOSED_STATE, _event.value, CLOSED_STATE)
_BEGIN = (Request.READY, Receiving.OPEN, Sending.CLEAR)
STATES = _reachable(_BEGIN)
NEW_STATE = STATES[_BEGIN]
