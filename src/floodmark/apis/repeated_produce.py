"""The produce that comes again: the same client, the same partition, other records.

A producer's requests to one partition are equal from the client id to the number of the partition.
Each connection remembers the first of them; one that begins with the same bytes has the same
meaning, so its records are appended without decoding what is around them. That takes half as long.

This knows no layout: a request is remembered if encoding it gives the bytes that came, which shows
where its records begin and end; `apis.offsets_template` does the same for the answer. Whatever is
not as usual goes the ordinary way: an unknown beginning, another partition behind that name, an
append that is refused, not yet acknowledged, or takes long to prepare.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, TypeAlias

from floodmark.apis.context import RequestContext
from floodmark.apis.gate import throttle_time, with_throttle_time
from floodmark.apis.handlers.produce import ZSTD_SINCE, append
from floodmark.apis.offsets_template import OffsetsTemplate
from floodmark.apis.route import Route
from floodmark.apis.transactional_produce import topic_name
from floodmark.network.request_channel import Outcome
from floodmark.replication.replica import NO_TIMESTAMP, UNPREPARED, AppendOutcome, Replica
from floodmark.wire.api_keys import FIRST_FLEXIBLE_VERSION
from floodmark.wire.compiler import encode_parts
from floodmark.wire.errors import NO_ERROR
from floodmark.wire.headers import decode_request_header
from floodmark.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from floodmark.wire.primitives import encode_bytes_length, read_bytes_length
from floodmark.wire.schema import DecodeError

MOST_PARTITIONS = 64
"""So many does a connection remember; further ones are decoded every time."""

MOST_LENGTHS = 8
"""Topics' names differ in length, and with them the place of the records: each is tried."""

MOST_FRONT_BYTES = 1024
"""What is remembered of a request; an ordinary one has a tenth of it."""

FIRST_VERSION = ZSTD_SINCE
"""Older versions look into the batch, and the oldest answers have two offsets."""

_AFTER_CORRELATION_ID = 8
# The bit of a varint's byte that says that another follows.
_CONTINUED = 128


class _Known(NamedTuple):
    """A request to one partition, and its answer around what differs each time."""

    replica: Replica
    acks: int
    back: bytes
    back_bytes: int
    pack_answer: Callable[..., bytes]
    answer_front: bytes
    answer_back: bytes
    throttle_position: int
    """Where the answer has its throttle time."""


# Api key and version in one, the correlation id, the front, and the two bytes behind it.
_Read: TypeAlias = Callable[[memoryview], tuple[int, int, bytes, int, int]]
# Where fronts of one length end, what reads them, and the requests by their fronts. A front is all
# between the correlation id and the length of the records.
_Fronts: TypeAlias = tuple[int, _Read, dict[bytes, _Known]]


class RepeatedProduces:
    """The requests that one connection has sent before. Asked about each frame of it."""

    __slots__ = (
        "_context",
        "_fronts",
        "_is_flexible",
        "_is_unlimited",
        "_kind",
        "_removals",
        "_replicas",
        "_route",
        "generation",
    )

    def __init__(self, context: RequestContext, route: Route) -> None:
        services = context.services
        # All that it knows was authorized under this; `apis.dispatch` drops it afterwards.
        self.generation = services.authorizer.generation + services.quotas.generation
        self._is_unlimited = services.quotas.is_unlimited
        self._context = context
        self._route = route
        self._replicas = services.replicas
        self._removals = self._replicas.removals
        self._is_flexible = route.version >= FIRST_FLEXIBLE_VERSION[route.api_key]
        self._kind = int(route.api_key) << 16 | route.version
        self._fronts: list[_Fronts] = []

    def outcome_of(self, frame: memoryview) -> Outcome:
        """The outcome of a request that is known, or None: then it is to be decoded."""
        frame_bytes = len(frame)
        for front_end, read, requests in self._fronts:
            if front_end + 2 > frame_bytes:
                continue
            kind, correlation_id, front, first, second = read(frame)
            known = requests.get(front)
            if known is not None:
                break
        else:
            return None
        replica, acks, back, back_bytes, pack, answer_front, answer_back, _ = known
        end = frame_bytes - back_bytes
        if second < _CONTINUED <= first and self._is_flexible:
            # What most are: a varint of two bytes. Not by the function below: the call takes as
            # long as all the rest of finding the records.
            start = front_end + 2
            size_bytes = first + (second << 7) - _CONTINUED - 1
        else:
            try:
                size_bytes, start = read_bytes_length(frame, front_end, self._is_flexible)
            except (IndexError, DecodeError):
                return None
        if (
            kind != self._kind
            or size_bytes != end - start
            or size_bytes < 0
            or frame[end:] != back
            or not replica.is_here
        ):
            return None
        outcome = self._replicas.append_to(replica, frame[start:end], acks)
        if isinstance(outcome, int):
            start_offset = replica.log.log_start_offset
            answer = pack(
                correlation_id, answer_front, outcome, NO_TIMESTAMP, start_offset, answer_back
            )
        elif outcome is UNPREPARED:
            return None
        else:
            error_code, base_offset, append_time_ms, start_offset, _, is_pending, _, _ = outcome
            if error_code is not NO_ERROR or is_pending:
                return self._answer_in_full(frame, replica.key, replica.in_full(outcome))
            answer = pack(
                correlation_id, answer_front, base_offset, append_time_ms, start_offset, answer_back
            )
        return answer if self._is_unlimited else self._throttled(frame, known, answer)

    def _throttled(self, frame: memoryview, known: _Known, answer: bytes) -> Outcome:
        context = self._context_of(frame)[0]
        throttle_ms = throttle_time(context, answer)
        if throttle_ms <= 0:
            return answer
        return with_throttle_time(answer, known.throttle_position, throttle_ms)

    def _context_of(self, frame: memoryview) -> tuple[RequestContext, int]:
        """And where the request begins behind its header."""
        header, position = decode_request_header(frame)
        of_first = self._context
        return RequestContext(of_first.services, of_first.peer, header, len(frame)), position

    def _answer_in_full(
        self, frame: memoryview, key: tuple[str, int], outcome: AppendOutcome
    ) -> Outcome:
        context, position = self._context_of(frame)
        request, _ = self._route.decode(frame, position)
        result = append(context, request, {key: outcome}, {})
        return self._route.outcome(context, result)

    def learn(self, frame: memoryview, request: ProduceRequest) -> None:
        """Remember a request to one partition that has been acknowledged."""
        topic = request.topic_data[0]
        partition = topic.partition_data[0]
        name = topic_name(self._context, topic)
        replica = None if name is None else self._replicas.find((name, partition.index))
        if replica is None or partition.records is None:
            return
        parts: list[bytes | memoryview] = []
        encode_parts(request, self._route.version, parts)
        at = next(index for index, part in enumerate(parts) if part is partition.records)
        front, back = b"".join(parts[:at]), b"".join(parts[at + 1 :])
        body_start = decode_request_header(frame)[1]
        if b"".join((front, partition.records, back)) != frame[body_start:]:
            return
        answer = OffsetsTemplate.of(lambda value: self._answer(request, value))
        length = encode_bytes_length(len(partition.records), self._is_flexible)
        front_end = body_start + len(front) - len(length)
        if front_end > MOST_FRONT_BYTES:
            return
        front = bytes(frame[_AFTER_CORRELATION_ID:front_end])
        self._with_end(front_end)[front] = _Known(
            replica,
            request.acks,
            back,
            len(back),
            answer.pack,
            answer.front,
            answer.back,
            self._throttle_position(request),
        )

    def _throttle_position(self, request: ProduceRequest) -> int:
        """Where two answers differ of which only one is throttled."""
        free, throttled = (self._answer(request, 0, throttle_ms) for throttle_ms in (0, -1))
        pairs = enumerate(zip(free, throttled, strict=True))
        return next(position for position, (one, other) in pairs if one != other)

    def _with_end(self, end: int) -> dict[bytes, _Known]:
        for known_end, _, requests in self._fronts:
            if known_end == end:
                return requests
        requests = {}
        read = Struct(f">ii{end - _AFTER_CORRELATION_ID}sBB").unpack_from
        self._fronts.append((end, read, requests))
        return requests

    def forget_removed(self) -> None:
        """Whoever sends to other partitions now must not keep deleted ones in memory."""
        if self._removals == self._replicas.removals:
            return
        self._removals = self._replicas.removals
        here = [
            (end, read, {front: one for front, one in known.items() if one.replica.is_here})
            for end, read, known in self._fronts
        ]
        self._fronts = [fronts for fronts in here if fronts[2]]

    @property
    def is_full(self) -> bool:
        return (
            len(self._fronts) >= MOST_LENGTHS
            or sum(len(requests) for _, _, requests in self._fronts) >= MOST_PARTITIONS
        )

    def _answer(self, request: ProduceRequest, value: int, throttle_ms: int = 0) -> bytes:
        """An answer in which all offsets are this."""
        topic = request.topic_data[0]
        partition = PartitionProduceResponse(
            index=topic.partition_data[0].index,
            base_offset=value,
            log_append_time_ms=value,
            log_start_offset=value,
        )
        response = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=[partition]
                )
            ],
            throttle_time_ms=throttle_ms,
        )
        answer = self._route.encoded(0, response)
        assert isinstance(answer, bytes)
        return answer


def remember(
    context: RequestContext,
    route: Route,
    frame: memoryview,
    request: ProduceRequest,
    response: object,
) -> None:
    """Called by `apis.dispatch` with every produce that was decoded."""
    if (
        route.version < FIRST_VERSION
        or type(response) is not ProduceResponse
        or request.transactional_id is not None
        or len(request.topic_data) != 1
        or len(request.topic_data[0].partition_data) != 1
        or response.responses[0].partition_responses[0].error_code != NO_ERROR
    ):
        return
    produces = context.peer.shortcut
    if not isinstance(produces, RepeatedProduces):
        produces = context.peer.shortcut = RepeatedProduces(context, route)
    produces.forget_removed()
    if not produces.is_full:
        produces.learn(frame, request)
