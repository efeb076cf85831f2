"""Frames for groups, offsets and transactions, beside those of wire.py, and their answers.

At the versions that Kafka 4.3's own clients speak: FindCoordinator 6, JoinGroup 9, SyncGroup 5,
Heartbeat 4, LeaveGroup 5, OffsetCommit 10, ConsumerGroupHeartbeat 1, InitProducerId 5, EndTxn 5,
Produce 13 with a transactional id, IncrementalAlterConfigs 1.
"""

import struct
import time
from dataclasses import dataclass
from typing import Final

import wire
from wire import compact, uvarint

GROUP: Final = 0
TRANSACTION: Final = 1
RETRIABLE: Final = frozenset({14, 15, 16, 51})  # loading, moving, or ending a transaction
MEMBER_ID_REQUIRED: Final = 79
REBALANCE_IN_PROGRESS: Final = 27
SESSION_TIMEOUT_MS: Final = 600_000  # a case may take its time between two heartbeats
REBALANCE_TIMEOUT_MS: Final = 60_000

_NULL = b"\x00"
_NO_TAGS = b"\x00"
_RETRY_SECONDS = 0.01
_PROTOCOL = compact("consumer"), compact("range")


class Answer:
    """Reads an answer field by field, behind its flexible header."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 5  # correlation id, no tags

    def take(self, form: struct.Struct) -> int:
        (number,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(number)

    def error_code(self) -> int:
        """Behind the throttle time, where most answers have it."""
        self._at += 4
        return self.take(SHORT)

    def length(self) -> int:
        """Of a string, bytes or array; -1 for null."""
        number, self._at = wire.read_uvarint(self._data, self._at)
        return number - 1

    def blob(self) -> bytes:
        size = max(self.length(), 0)
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def skip(self, size: int) -> None:
        self._at += size


BYTE: Final = struct.Struct(">b")
SHORT: Final = struct.Struct(">h")
INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")


def find_coordinator(connection: wire.Connection, key_type: int, key: str) -> None:
    """Ask until the coordinator is there: the first one to ask has its internal topic made."""
    body = BYTE.pack(key_type) + b"\x02" + compact(key) + _NO_TAGS
    while True:
        answer = Answer(connection.call(wire.request(10, 6, body)))
        answer.skip(4)
        answer.length()
        answer.blob()
        answer.skip(4)
        answer.blob()
        answer.skip(4)
        error_code = answer.take(SHORT)
        if error_code == wire.NO_ERROR:
            return
        if error_code not in RETRIABLE:
            raise wire.Refused(f"FindCoordinator answered error {error_code}")
        time.sleep(_RETRY_SECONDS)


# Classic groups


def find_group(connection: wire.Connection, group: str) -> None:
    """Ask until its coordinator is there and has loaded the group's partition."""
    find_coordinator(connection, GROUP, group)
    # That nobody leaves changes nothing, and is refused until the partition is loaded.
    while error_code_of(connection.call(leave_group(group, "nobody"))) in RETRIABLE:
        time.sleep(_RETRY_SECONDS)


def subscription(topic: str) -> bytes:
    """A consumer's metadata, version 0: one topic, no user data."""
    name = topic.encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + INT.pack(-1)


def assignment(topic: str, partitions: list[int]) -> bytes:
    name = topic.encode()
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hih", 0, 1, len(name)) + name + numbers + INT.pack(-1)


def join_group(group: str, member_id: str, metadata: bytes) -> bytearray:
    protocol_type, protocol = _PROTOCOL
    body = compact(group) + INT.pack(SESSION_TIMEOUT_MS) + INT.pack(REBALANCE_TIMEOUT_MS)
    body += compact(member_id) + _NULL + protocol_type
    body += b"\x02" + protocol + uvarint(len(metadata) + 1) + metadata + _NO_TAGS
    return wire.request(11, 9, body + _NULL + _NO_TAGS)


@dataclass(frozen=True)
class Joined:
    error_code: int
    generation_id: int
    member_id: str
    member_ids: list[str]  # for the leader only


def joined(data: bytes) -> Joined:
    answer = Answer(data)
    error_code, generation_id = answer.error_code(), answer.take(INT)
    for _ in range(3):  # protocol type, protocol, leader
        answer.blob()
    answer.skip(1)
    member_id = answer.blob().decode()
    member_ids = []
    for _ in range(answer.length()):
        member_ids.append(answer.blob().decode())
        answer.blob()
        answer.blob()
        answer.skip(1)
    return Joined(error_code, generation_id, member_id, member_ids)


def sync_group(
    group: str, generation_id: int, member_id: str, assignments: dict[str, bytes]
) -> bytearray:
    body = compact(group) + INT.pack(generation_id) + compact(member_id) + _NULL
    body += b"".join(_PROTOCOL) + uvarint(len(assignments) + 1)
    for name, given in assignments.items():
        body += compact(name) + uvarint(len(given) + 1) + given + _NO_TAGS
    return wire.request(14, 5, body + _NO_TAGS)


def heartbeat(group: str, generation_id: int, member_id: str) -> bytearray:
    body = compact(group) + INT.pack(generation_id) + compact(member_id) + _NULL
    return wire.request(12, 4, body + _NO_TAGS)


def leave_group(group: str, member_id: str) -> bytearray:
    body = compact(group) + b"\x02" + compact(member_id) + _NULL + _NULL + _NO_TAGS
    return wire.request(13, 5, body + _NO_TAGS)


def error_code_of(data: bytes) -> int:
    """Of an answer that begins with a throttle time and an error code."""
    return Answer(data).error_code()


# Consumer groups (KIP-848)


def first_consumer_heartbeat(group: str, member_id: str, topic: str) -> bytearray:
    body = compact(group) + compact(member_id) + INT.pack(0) + _NULL + _NULL
    body += INT.pack(REBALANCE_TIMEOUT_MS) + b"\x02" + compact(topic) + _NULL + _NULL
    return wire.request(68, 1, body + b"\x01" + _NO_TAGS)


def consumer_heartbeat(
    group: str, member_id: str, member_epoch: int, topic_id: bytes, owned: list[int] | None
) -> bytearray:
    """`owned` is what the member has now, None when that has not changed."""
    body = compact(group) + compact(member_id) + INT.pack(member_epoch) + _NULL + _NULL
    body += INT.pack(-1) + _NULL + _NULL + _NULL
    if owned is None:
        body += _NULL
    elif not owned:
        body += b"\x01"
    else:
        body += b"\x02" + topic_id + uvarint(len(owned) + 1)
        body += struct.pack(f">{len(owned)}i", *owned) + _NO_TAGS
    return wire.request(68, 1, body + _NO_TAGS)


def consumer_heartbeat_answer(data: bytes) -> tuple[int, int, list[int] | None]:
    """Error code, member epoch, and the partitions of the one topic when they are told."""
    answer = Answer(data)
    error_code = answer.error_code()
    answer.blob()
    answer.blob()
    member_epoch = answer.take(INT)
    answer.skip(4)
    if answer.take(BYTE) < 0:
        return error_code, member_epoch, None
    partitions: list[int] = []
    for _ in range(answer.length()):
        answer.skip(16)
        partitions += [answer.take(INT) for _ in range(answer.length())]
        answer.skip(1)
    return error_code, member_epoch, partitions


# Offsets


def commit_offsets(
    group: str, generation_id: int, member_id: str, topic_id: bytes, partitions: list[int]
) -> wire.Frame:
    """`patch_at` is where the offset of the last partition stands."""
    body = compact(group) + INT.pack(generation_id) + compact(member_id) + _NULL
    body += b"\x02" + topic_id + uvarint(len(partitions) + 1)
    for partition in partitions:
        body += struct.pack(">iqi", partition, 0, -1) + compact("") + _NO_TAGS
    data = wire.request(8, 10, body + _NO_TAGS + _NO_TAGS)
    return wire.Frame(data, len(data) - 2 - 2 - 4 - 8)


def check_committed(data: bytes) -> None:
    answer = Answer(data)
    answer.skip(4)
    for _ in range(answer.length()):
        answer.skip(16)
        for _ in range(answer.length()):
            answer.skip(4)
            error_code = answer.take(SHORT)
            if error_code:
                raise wire.Refused(f"OffsetCommit answered error {error_code}")
            answer.skip(1)
        answer.skip(1)


# Transactions


def new_transactional_producer(connection: wire.Connection, name: str) -> tuple[int, int]:
    """Its producer id and epoch, once an earlier transaction of that name is through."""
    body = compact(name) + struct.pack(">iqh", 60_000, -1, -1) + _NO_TAGS
    while True:
        answer = connection.call(wire.request(22, 5, body))
        error_code, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, 9)
        if error_code == wire.NO_ERROR:
            return producer_id, producer_epoch
        if error_code not in RETRIABLE:
            raise wire.Refused(f"InitProducerId answered error {error_code}")
        time.sleep(_RETRY_SECONDS)


def transactional_produce(
    name: str, topic_id: bytes, partition: int, batch: bytes | bytearray
) -> wire.Frame:
    """As wire.produce, with acks=all: what a transaction's produce must have."""
    head = compact(name) + struct.pack(">hi", -1, 30_000) + b"\x02" + topic_id + b"\x02"
    head += INT.pack(partition) + uvarint(len(batch) + 1)
    data = wire.request(0, 13, head + batch + b"\x00\x00\x00")
    return wire.Frame(data, len(data) - 3 - len(batch))


def commit_transaction(name: str) -> wire.Frame:
    """`patch_at` is where producer id and epoch stand."""
    body = compact(name) + struct.pack(">qhb", -1, -1, 1) + _NO_TAGS
    data = wire.request(26, 5, body)
    return wire.Frame(data, len(data) - 1 - 1 - 10)


def transaction_committed(data: bytes) -> tuple[int, int, int]:
    """Error code, and the producer id and epoch of the next transaction."""
    error_code, producer_id, producer_epoch = struct.unpack_from(">hqh", data, 9)
    return error_code, producer_id, producer_epoch


# Topics


def set_topic_config(connection: wire.Connection, topic: str, name: str, value: str) -> None:
    body = b"\x02" + BYTE.pack(2) + compact(topic) + b"\x02" + compact(name) + BYTE.pack(0)
    body += compact(value) + _NO_TAGS + _NO_TAGS + b"\x00" + _NO_TAGS
    answer = Answer(connection.call(wire.request(44, 1, body)))
    answer.skip(4)
    answer.length()
    error_code = answer.take(SHORT)
    if error_code:
        raise wire.Refused(f"setting {name} of {topic} answered error {error_code}")
