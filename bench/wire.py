"""Kafka requests as ready-made frames, and the few fields of answers that a load must look at.

Written by hand with struct at the versions that Kafka 4.3's own clients speak: Produce 13,
Fetch 17, CreateTopics 7, DeleteTopics 6, InitProducerId 5, ApiVersions 0.
"""

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_CLIENT_ID = b"bench"
_HEADER = struct.Struct(">hhih")
CORRELATION_AT: Final = 8
_RECEIVE_BYTES = 1 << 16
_TIMEOUT = struct.pack("ll", 60, 0)  # a timeval
NO_ERROR: Final = 0
RETRIABLE: Final = frozenset({3, 5, 6, 7, 15, 100})  # no leader or metadata not there yet


class Refused(Exception):
    """The broker answered an error code that the load does not expect."""


@dataclass(frozen=True)
class Frame:
    """A request ready to send, with the place of the one field that changes."""

    data: bytearray
    patch_at: int = 0


class Connection:
    """A blocking socket that sends frames and gives back answers without their size."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        # The kernel's timeouts: with Python's own, each call would be a poll and a call.
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, _TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending = bytearray()
        self._large = bytearray(1 << 20)

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        self.socket.sendall(data)

    def call(self, data: bytes | bytearray) -> bytes:
        self.send(data)
        return self.receive()

    def receive(self) -> bytes:
        """The next answer; for many small ones in one read."""
        pending = self._pending
        while True:
            if len(pending) >= 4:
                end = 4 + int.from_bytes(pending[:4], "big")
                if len(pending) >= end:
                    answer = bytes(pending[4:end])
                    del pending[:end]
                    return answer
            part = self.socket.recv(_RECEIVE_BYTES)
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            pending += part

    def receive_ready(self) -> list[bytes]:
        """The next answer and those that came with it: select cannot see what is read already."""
        answers = [self.receive()]
        while self._pending:
            answers.append(self.receive())
        return answers

    def receive_large(self) -> memoryview:
        """The next answer in a reused buffer, valid until the next call; for fetches, of which one
        is in flight."""
        got, end = 0, 4
        while got < end:
            count = self.socket.recv_into(memoryview(self._large)[got:])
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            if got < 4 <= got + count:
                end = 4 + int.from_bytes(self._large[:4], "big")
                if end > len(self._large):
                    self._large = self._large[: got + count] + bytes(end - got - count + (1 << 16))
            got += count
        return memoryview(self._large)[4:end]


def request(api_key: int, version: int, body: bytes, flexible: bool = True) -> bytearray:
    header = _HEADER.pack(api_key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID
    header += b"\x00" if flexible else b""
    return bytearray(struct.pack(">i", len(header) + len(body)) + header + body)


def produce(topic_id: bytes, partition: int, batch: bytes | bytearray, acks: int = 1) -> Frame:
    """One batch for one partition; `patch_at` is where the batch begins."""
    head = b"\x00" + struct.pack(">hi", acks, 30_000) + b"\x02" + topic_id + b"\x02"
    head += struct.pack(">i", partition) + uvarint(len(batch) + 1)
    data = request(0, 13, head + batch + b"\x00\x00\x00")
    return Frame(data, len(data) - 3 - len(batch))


def produced(answer: bytes) -> tuple[int, int]:
    """Error code and base offset of a one-partition Produce answer."""
    error_code, base_offset = struct.unpack_from(">hq", answer, 27)
    return error_code, base_offset


def fetch(topic_id: bytes, partitions: int = 1, max_wait_ms: int = 500) -> Frame:
    """A fetch without session of the first partitions of a topic; `patch_at` is where the offset
    of partition 0 stands."""
    head = struct.pack(">iiibii", max_wait_ms, 1, 50 << 20, 0, 0, -1)
    head += b"\x02" + topic_id + uvarint(partitions + 1)
    wanted = b"".join(
        struct.pack(">iiqiqi", partition, -1, 0, -1, -1, 1 << 20) + b"\x00"
        for partition in range(partitions)
    )
    tail = wanted + b"\x00" + b"\x01\x01\x00"
    data = request(1, 17, head + tail)
    return Frame(data, len(data) - len(tail) + 8)


def fetched(answer: memoryview) -> memoryview:
    """The record bytes of the first partition in a Fetch answer; empty when nothing came."""
    (error_code,) = struct.unpack_from(">h", answer, 9)
    if error_code:
        raise Refused(f"fetch answered error {error_code}")
    if answer[15] != 2:
        return answer[:0]
    (error_code,) = struct.unpack_from(">h", answer, 37)
    if error_code:
        raise Refused(f"fetch of the partition answered error {error_code}")
    size, position = read_uvarint(answer, 68)
    return answer[position : position + max(size - 1, 0)]


def create_topic(
    connection: Connection, name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> bytes:
    """Create a topic with one replica; returns its id."""
    configs = configs or {}
    body = b"\x02" + compact(name) + struct.pack(">ih", partitions, 1) + b"\x01"
    body += uvarint(len(configs) + 1)
    body += b"".join(compact(key) + compact(value) + b"\x00" for key, value in configs.items())
    body += b"\x00"
    answer = connection.call(request(19, 7, body + struct.pack(">ib", 30_000, 0) + b"\x00"))
    at = 4 + 1 + 4 + 1 + len(compact(name))
    (error_code,) = struct.unpack_from(">h", answer, at + 16)
    if error_code:
        raise Refused(f"creating {name} answered error {error_code}")
    return answer[at : at + 16]


def delete_topic(connection: Connection, name: str) -> None:
    body = b"\x02" + compact(name) + bytes(16) + b"\x00" + struct.pack(">i", 30_000) + b"\x00"
    connection.call(request(20, 6, body))


def new_producer(connection: Connection) -> tuple[int, int]:
    """A producer id and its epoch."""
    body = b"\x00" + struct.pack(">iqh", 60_000, -1, -1) + b"\x00"
    while True:
        answer = connection.call(request(22, 5, body))
        error_code, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, 9)
        if error_code == NO_ERROR:
            return producer_id, producer_epoch
        if error_code not in RETRIABLE | {14}:
            raise Refused(f"asking for a producer id answered error {error_code}")


def api_versions() -> bytearray:
    return request(18, 0, b"", flexible=False)


def compact(text: str) -> bytes:
    return uvarint(len(text.encode()) + 1) + text.encode()


def uvarint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append((number & 0x7F) | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
