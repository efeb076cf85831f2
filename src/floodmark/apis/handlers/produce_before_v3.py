"""Produce versions 0 to 2, which are advertised and always refused.

Old librdkafka versions derive a broker's message formats from the advertised range of Produce, and
misjudge one that starts at 3 (KAFKA-18659). So the range starts at 0. A request in those versions
gets UNSUPPORTED_VERSION for each partition, or a closed connection if it expects no response.
`wire` does not define them, because nothing else needs them.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any, NamedTuple

from floodmark.apis.context import RequestContext
from floodmark.network.request_channel import CloseConnection
from floodmark.wire.errors import ErrorCode
from floodmark.wire.schema import DecodeError

VERSIONS = range(3)

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_ACKS_AND_TIMEOUT = Struct(">hi")

Topics = list[tuple[bytes, list[int]]]


class Refused(NamedTuple):
    """The response, in this version's layout."""

    version: int
    topics: Topics


def handle(context: RequestContext, request: tuple[int, Topics]) -> Refused:
    acks, topics = request
    if acks == 0:
        raise CloseConnection(f"produce v{context.api_version} with acks=0 is not supported")
    return Refused(context.api_version, topics)


def decode(frame: memoryview, position: int, most_entries: int) -> tuple[tuple[int, Topics], int]:
    """Reads acks, timeout, and an array of topics with partitions. Skips the records."""
    try:
        acks, _timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position)
        position += _ACKS_AND_TIMEOUT.size
        topics: Topics = []
        (topic_count,) = _INT32.unpack_from(frame, position)
        position += 4
        most_entries = _fewer(most_entries, topic_count)
        for _ in range(topic_count):
            (length,) = _INT16.unpack_from(frame, position)
            if length < 0:
                raise DecodeError("a produce request has a null topic name")
            name = bytes(frame[position + 2 : position + 2 + length])
            position += 2 + length
            (partition_count,) = _INT32.unpack_from(frame, position)
            position += 4
            most_entries = _fewer(most_entries, partition_count)
            partitions = []
            for _ in range(partition_count):
                partitions.append(_INT32.unpack_from(frame, position)[0])
                position += 8 + max(0, _INT32.unpack_from(frame, position + 4)[0])
            topics.append((name, partitions))
    except error as problem:
        raise DecodeError(f"a produce request is truncated: {problem}") from problem
    return (acks, topics), position


def _fewer(most_entries: int, count: int) -> int:
    if count > most_entries:
        raise DecodeError("a produce request names too many topics and partitions")
    return most_entries - max(0, count)


def encode(response: Refused, parts: list[Any]) -> None:
    version, topics = response
    parts.append(_INT32.pack(len(topics)))
    for name, partitions in topics:
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(partitions))]
        for partition in partitions:
            parts.append(Struct(">ihq").pack(partition, ErrorCode.UNSUPPORTED_VERSION, -1))
            if version >= 2:  # log append time
                parts.append(Struct(">q").pack(-1))
    if version >= 1:  # throttle time
        parts.append(_INT32.pack(0))
