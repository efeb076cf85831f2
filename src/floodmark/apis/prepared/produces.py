"""Prepared produce requests: same client, same partition, different records.

A producer's requests to one partition are identical from the client id to the partition number. The
first one that is appended prepares the others on its connection: a request with the same leading
bytes has the same meaning, so the broker appends its records without decoding the rest. This takes
half as long.

This module does not depend on the layout. It prepares a request only if encoding it yields the
received bytes, which shows where the records start and end. `prepared.offsets_template` does the
same for the response. Everything else takes the full path: unknown leading bytes, a removed
partition, an append that is refused or must inspect the records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import TypeAlias

from floodmark.apis.context import RequestContext
from floodmark.apis.gate import throttle_time, with_throttle_time
from floodmark.apis.handlers.produce import ZSTD_SINCE, append
from floodmark.apis.prepared.memory import memory_of
from floodmark.apis.prepared.offsets_template import OffsetsTemplate
from floodmark.apis.route import Route
from floodmark.apis.transactional_produce import topic_name
from floodmark.network.request_channel import Outcome, Response
from floodmark.promise import Promise
from floodmark.replication.outcomes import NOT_VALIDATED, AppendOutcome
from floodmark.replication.replica import Replica
from floodmark.vocabulary import TopicPartition
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
"""A connection prepares requests for this many partitions, and decodes the others."""

MOST_LENGTHS = 8
"""Topic names differ in length, and so does the position of the records. Each is tried."""

MOST_FRONT_BYTES = 1024
"""How much of a request is kept. A typical one needs a tenth of it."""

FIRST_VERSION = ZSTD_SINCE
"""Older versions inspect the batch, and the oldest responses have two offsets."""

_CORRELATION_ID = 4
_AFTER_CORRELATION_ID = 8
_read_correlation_id = Struct(">i").unpack_from
# The varint bit that says another byte follows.
_CONTINUED = 128


@dataclass(slots=True, frozen=True)
class _Known:
    """A request to one partition, and the constant parts of its response."""

    replica: Replica
    acks: int
    timeout_ms: int
    back: bytes
    """The bytes after the records."""
    back_bytes: int
    pack_answer: Callable[..., bytes]
    answer_front: bytes
    answer_back: bytes
    throttle_position: int
    """The position of the throttle time in the response."""


# API key and version combined, the correlation id, the front, and the two bytes after it.
_Read: TypeAlias = Callable[[memoryview], tuple[int, int, bytes, int, int]]
# The position two bytes past fronts of one length, a reader up to there, and the requests by front.
# A front is everything between the correlation id and the length of the records.
_Fronts: TypeAlias = tuple[int, _Read, dict[bytes, _Known]]


class PreparedProduces:
    """The prepared produce requests of one connection, all of one version."""

    __slots__ = (
        "_context",
        "_fronts",
        "_is_flexible",
        "_is_unlimited",
        "_kind",
        "_removals",
        "_replicas",
        "_route",
    )

    def __init__(self, context: RequestContext, route: Route) -> None:
        services = context.services
        self._is_unlimited = services.quotas.is_unlimited
        self._context = context
        self._route = route
        self._replicas = services.replicas
        self._removals = self._replicas.removals
        self._is_flexible = route.version >= FIRST_FLEXIBLE_VERSION[route.api_key]
        self._kind = int(route.api_key) << 16 | route.version
        self._fronts: list[_Fronts] = []

    def outcome_of(self, frame: memoryview) -> Outcome:
        """The outcome of a prepared request. None if the request must be decoded."""
        frame_bytes = len(frame)
        for start, read, requests in self._fronts:
            if start > frame_bytes:
                continue
            kind, correlation_id, front, first, second = read(frame)
            known = requests.get(front)
            if known is not None:
                break
        else:
            return None
        end = frame_bytes - known.back_bytes
        if second < _CONTINUED <= first and self._is_flexible:
            # Most lengths are two-byte varints. Inlined, because calling the function below takes
            # as long as finding the records.
            size_bytes = first + (second << 7) - _CONTINUED - 1
        else:
            try:
                size_bytes, start = read_bytes_length(frame, start - 2, self._is_flexible)
            except (IndexError, DecodeError):
                return None
        replica = known.replica
        if (
            kind != self._kind
            or size_bytes != end - start
            or size_bytes < 0
            or frame[end:] != known.back
            or not replica.is_here
        ):
            return None
        outcome = self._replicas.append_to(replica, frame[start:end], known.acks)
        error_code, base_offset, append_time_ms, start_offset, _, is_pending, _, _ = outcome
        if error_code is not NO_ERROR or is_pending:
            return self._unusual(frame, known, outcome)
        pack, front, back = known.pack_answer, known.answer_front, known.answer_back
        answer = pack(correlation_id, front, base_offset, append_time_ms, start_offset, back)
        return answer if self._is_unlimited else self._throttled(frame, known, answer)

    def _unusual(self, frame: memoryview, known: _Known, outcome: AppendOutcome) -> Outcome:
        """The outcome of an append that is refused, or not acknowledged yet."""
        if outcome is NOT_VALIDATED:
            return None
        if outcome.error_code is not NO_ERROR:
            return self._answer_in_full(frame, known.replica.key, outcome)
        promise = self._replicas.acknowledged(
            {known.replica.key: outcome}, known.acks, known.timeout_ms
        )
        return promise.map(partial(self._acknowledged, frame, known, outcome))

    def _acknowledged(
        self,
        frame: memoryview,
        known: _Known,
        appended: AppendOutcome,
        settled: dict[TopicPartition, AppendOutcome],
    ) -> Response:
        """The response after a wait. The frame is still valid, because its connection is muted."""
        ((key, outcome),) = settled.items()
        if outcome.error_code is not NO_ERROR:
            refusal = appended._replace(
                error_code=outcome.error_code, error_message=outcome.error_message
            )
            return self._answer_in_full(frame, key, refusal)
        answer = known.pack_answer(
            _read_correlation_id(frame, _CORRELATION_ID)[0],
            known.answer_front,
            appended.base_offset,
            appended.log_append_time_ms,
            appended.log_start_offset,
            known.answer_back,
        )
        return answer if self._is_unlimited else self._throttled(frame, known, answer)

    def _throttled(self, frame: memoryview, known: _Known, answer: bytes) -> Response:
        context = self._context_of(frame)[0]
        throttle_ms = throttle_time(context, answer)
        if throttle_ms <= 0:
            return answer
        return with_throttle_time(answer, known.throttle_position, throttle_ms)

    def _context_of(self, frame: memoryview) -> tuple[RequestContext, int]:
        """The context, and the position after the request's header."""
        header, position = decode_request_header(frame)
        of_first = self._context
        return RequestContext(of_first.services, of_first.peer, header, len(frame)), position

    def _answer_in_full(
        self, frame: memoryview, key: TopicPartition, outcome: AppendOutcome
    ) -> Response:
        """The response to a refused append, as the handler builds it."""
        context, position = self._context_of(frame)
        request, _ = self._route.decode(frame, position)
        return self._route.answer(context, append(context, request, {key: outcome}, {}))

    def add(self, frame: memoryview, request: ProduceRequest) -> None:
        """Prepares a request to one partition that was appended."""
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
        self._with_front_end(front_end)[front] = _Known(
            replica,
            request.acks,
            request.timeout_ms,
            back,
            len(back),
            answer.pack,
            answer.front,
            answer.back,
            self._throttle_position(request),
        )

    def _throttle_position(self, request: ProduceRequest) -> int:
        """The position where a throttled response differs from one that is not."""
        free, throttled = (self._answer(request, 0, throttle_ms) for throttle_ms in (0, -1))
        pairs = enumerate(zip(free, throttled, strict=True))
        return next(position for position, (one, other) in pairs if one != other)

    def _with_front_end(self, front_end: int) -> dict[bytes, _Known]:
        read_end = front_end + 2
        for known_end, _, requests in self._fronts:
            if known_end == read_end:
                return requests
        requests = {}
        read = Struct(f">ii{front_end - _AFTER_CORRELATION_ID}sBB").unpack_from
        self._fronts.append((read_end, read, requests))
        return requests

    def forget_removed(self) -> None:
        """Releases removed partitions, in case the client now writes to others."""
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
        """A response with this value in all offsets."""
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


def learn(
    context: RequestContext,
    route: Route,
    frame: memoryview,
    request: ProduceRequest,
    result: object,
) -> None:
    """Prepares the next request of this kind.

    `apis.dispatch` calls it with every decoded produce and its handler's result.
    """
    services = context.services
    if (
        route.version < FIRST_VERSION
        # Both need to see every request.
        or services.quotas.measures_time
        or services.authorizer.audits_allowed
        or request.transactional_id is not None
        or len(request.topic_data) != 1
        or len(request.topic_data[0].partition_data) != 1
        or not _is_appended(result)
    ):
        return
    memory = memory_of(context)
    produces = memory.produces
    if produces is None:
        produces = memory.produces = PreparedProduces(context, route)
    produces.forget_removed()
    if not produces.is_full:
        produces.add(frame, request)


def _is_appended(result: object) -> bool:
    """Whether the one partition accepted its batch. A promise only waits for acknowledgement."""
    if isinstance(result, ProduceResponse):
        error_code: int = result.responses[0].partition_responses[0].error_code
        return error_code == NO_ERROR
    return isinstance(result, Promise)
