"""What is fired at a broker: whole requests, and the same broken in every way we can think of.

A `Shot` is bytes for the socket and what to expect of the connection afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from floodmark.wire.api_keys import ApiKey
from floodmark.wire.compiler import decode, encode
from floodmark.wire.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_header_version,
)
from floodmark.wire.messages import request_class, response_class
from floodmark.wire.messages.produce import ProduceRequest
from fuzz_kit.acquaintances import Acquaintances
from fuzz_kit.messages import MessageMaker

TLS_CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(200))
HTTP_REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
LARGEST = 2**31 - 1

WAIT_FOR_OTHERS = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Answered when the other members have come, which they may never do."""

MAKES_PARTITIONS = frozenset({ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS})
"""Never broken: with a bit flipped they ask for thousands of partitions, which are made. What those
take is no leak."""

INTRODUCES = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.END_TXN,
    }
)
"""Their answers tell of sessions, members and producers."""


class Then(Enum):
    """What may follow. The end of the connection is always allowed, except by silence."""

    ANSWER = auto()
    PERHAPS_ANSWER = auto()
    """A broken request may have become one that is not answered, or not soon."""
    GO_ON = auto()
    """A produce without acknowledgement: nothing comes, and the connection stays."""
    SILENCE = auto()
    """The broker waits for more bytes, which do not come."""


class Shot(NamedTuple):
    kind: str
    data: bytes
    then: Then
    learn: Callable[[bytes], None] | None = None
    """What to do with the answer, where it tells of somebody who is worth knowing."""


class ShotMaker:
    """Makes shots from the versions that the broker says it serves."""

    def __init__(
        self,
        random: Random,
        served: Mapping[ApiKey, tuple[int, int]],
        topic_ids: Sequence[UUID] = (),
        acquaintances: Acquaintances | None = None,
    ) -> None:
        self._random = random
        self._acquaintances = acquaintances or Acquaintances()
        self._served = list(served.items())
        self._breakable = [item for item in self._served if item[0] not in MAKES_PARTITIONS]
        self._messages = MessageMaker(random, topic_ids)
        self._kinds: list[tuple[str, Callable[[], Shot]]] = [
            ("whole", self._whole),
            ("whole", self._whole),
            ("whole", self._whole),
            ("truncated message", lambda: self._changed(self._truncate)),
            ("flipped bits", lambda: self._changed(self._flip)),
            ("flipped bits", lambda: self._changed(self._flip)),
            ("lying length inside", lambda: self._changed(self._lie)),
            ("lying length inside", lambda: self._changed(self._lie)),
            ("cut or doubled", lambda: self._changed(self._cut_or_double)),
            ("lying frame", self._lying_frame),
            ("other API or version", self._other_api_or_version),
            ("garbage", self._garbage),
        ]
        self._rare: list[tuple[str, Callable[[], Shot]]] = [
            ("half a request", self._half),
            ("another protocol", self._other_protocol),
            ("huge frame", self._huge_frame),
        ]

    def next(self) -> Shot:
        kinds = self._rare if self._random.random() < 0.03 else self._kinds
        kind, make = self._random.choice(kinds)
        return make()._replace(kind=kind)

    def _request(
        self, *, is_broken: bool = False
    ) -> tuple[bytes, Then, Callable[[bytes], None] | None]:
        random = self._random
        served = self._breakable if is_broken else self._served
        api_key, (lowest, highest) = random.choice(served)
        version = random.randint(lowest, highest)
        cls = request_class(api_key)
        message = self._messages.make(cls, version)
        self._acquaintances.introduce(random, message, version)
        then = Then.ANSWER
        if isinstance(message, ProduceRequest) and message.acks == 0:
            then = Then.GO_ON
        elif api_key in WAIT_FOR_OTHERS:
            then = Then.PERHAPS_ANSWER
        header = RequestHeader(api_key, version, random.getrandbits(31), random.choice((None, "f")))
        body = encode_request_header(header) + encode(message, version)
        return body, then, self._learn_of(api_key, version, message)

    def _learn_of(
        self, api_key: ApiKey, version: int, request: Any
    ) -> Callable[[bytes], None] | None:
        if api_key not in INTRODUCES:
            return None

        def learn(answer: bytes) -> None:
            header_version = response_header_version(api_key, version)
            _, position = decode_response_header(answer, header_version)
            response = decode(response_class(api_key), answer, version, position)
            self._acquaintances.learn(request, response)

        return learn

    def _whole(self) -> Shot:
        body, then, learn = self._request()
        return Shot("", _framed(body), then, learn)

    def _changed(self, change: Callable[[bytearray], bytes | bytearray]) -> Shot:
        """A whole frame around a broken message."""
        body, *_ = self._request(is_broken=True)
        return Shot("", _framed(change(bytearray(body))), Then.PERHAPS_ANSWER)

    def _truncate(self, body: bytearray) -> bytearray:
        return body[: self._random.randrange(len(body))]

    def _flip(self, body: bytearray) -> bytearray:
        for _ in range(self._random.choice((1, 1, 2, 8))):
            body[self._random.randrange(len(body))] ^= 1 << self._random.randrange(8)
        return body

    def _lie(self, body: bytearray) -> bytearray:
        """Writes a huge, negative or just wrong count where, with luck, a count stands."""
        lie = self._random.choice(
            (
                b"\x7f\xff\xff\xff",
                b"\xff\xff\xff\xfe",
                b"\x80\x00\x00\x00",
                b"\x00\x0f\x42\x41",
                b"\xff\xff\xff\xff\x07",
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                b"\x7f\xff",
                b"\xff",
            )
        )
        position = self._random.randrange(8, max(9, len(body)))
        body[position : position + len(lie)] = lie
        return body

    def _cut_or_double(self, body: bytearray) -> bytearray:
        begin = self._random.randrange(len(body))
        end = self._random.randrange(begin, len(body) + 1)
        if self._random.random() < 0.5:
            return body[:begin] + body[end:]
        return body[:end] + body[begin:]

    def _lying_frame(self) -> Shot:
        body, *_ = self._request()
        length = self._random.choice((-1, -LARGEST, 0, 1, 7, len(body) - 1, len(body) + 1, LARGEST))
        return Shot("", length.to_bytes(4, "big", signed=True) + body, Then.SILENCE)

    def _other_api_or_version(self) -> Shot:
        body = bytearray(self._request()[0])
        api_key, version = self._random.choice(
            ((self._random.randrange(-300, 3000), 0), (18, 99), (18, -1), (3, 500), (0, 1), (1, 0))
        )
        body[0:2] = api_key.to_bytes(2, "big", signed=True)
        body[2:4] = version.to_bytes(2, "big", signed=True)
        return Shot("", _framed(body), Then.PERHAPS_ANSWER)

    def _garbage(self) -> Shot:
        garbage = self._random.randbytes(self._random.choice((0, 1, 8, 100, 2000)))
        return Shot("", _framed(garbage), Then.PERHAPS_ANSWER)

    def _half(self) -> Shot:
        data = _framed(self._request()[0])
        return Shot("", data[: self._random.randrange(1, len(data))], Then.SILENCE)

    def _other_protocol(self) -> Shot:
        return Shot("", self._random.choice((TLS_CLIENT_HELLO, HTTP_REQUEST)), Then.SILENCE)

    def _huge_frame(self) -> Shot:
        """Announces what is allowed, sends little of it: memory must follow what arrives."""
        announced = 90 * 1024 * 1024
        return Shot("", announced.to_bytes(4, "big") + bytes(5000), Then.SILENCE)


def _framed(body: bytes | bytearray) -> bytes:
    return len(body).to_bytes(4, "big") + bytes(body)
