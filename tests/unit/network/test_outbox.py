"""The answers of one turn go to the socket in one write, in their order."""

import socket
from typing import Any, cast

import pytest

from floodmark.network.transfer import PIECE_BYTES, SMALL_BYTES, Outbox, ShortRead


class Transport:
    """Keeps what each call wrote."""

    def __init__(self, buffered_bytes: int = 1) -> None:
        self.writes: list[bytes] = []
        self._buffered_bytes = buffered_bytes

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    def writelines(self, chunks: list[bytes]) -> None:
        self.writes.append(b"".join(chunks))

    def get_write_buffer_size(self) -> int:
        return self._buffered_bytes


class Piece:
    """A slice of a file, as far as an outbox looks at it."""

    def __init__(self, data: bytes, announced: int | None = None) -> None:
        self._data = data
        self._announced = len(data) if announced is None else announced

    def __len__(self) -> int:
        return self._announced

    def read(self, start: int, size: int) -> bytes:
        return self._data[start : start + size]

    def send_to(self, socket_number: int, start: int) -> int:
        return 0


def new_outbox() -> Outbox:
    """Of a transport that always has something to write: nothing may go past it."""
    return Outbox(cast("Any", None))


def written(outbox: Outbox) -> list[bytes]:
    transport = Transport()
    outbox.write_to(cast("Any", transport))
    return transport.writes


def test_several_answers_are_one_write() -> None:
    outbox = new_outbox()
    outbox.add(b"one")
    outbox.add([b"t", Piece(b"wo")])
    assert written(outbox) == [b"\0\0\0\x03one\0\0\0\x03two"]
    assert outbox.size_bytes == 0


def test_a_large_answer_is_written_whole_and_told_to_be_large() -> None:
    outbox = new_outbox()
    records = bytes(SMALL_BYTES)
    outbox.add([b"head", Piece(records)])
    assert outbox.size_bytes > SMALL_BYTES
    assert written(outbox) == [(SMALL_BYTES + 4).to_bytes(4, "big") + b"head" + records]
    assert outbox.size_bytes == 0


def test_of_an_answer_that_the_file_cannot_fill_nothing_is_sent() -> None:
    outbox = new_outbox()
    outbox.add(b"before")
    with pytest.raises(ShortRead):
        outbox.add([b"head", Piece(b"too little", announced=100)])
    assert written(outbox) == [b"\0\0\0\x06before"]


def test_large_slices_are_read_in_pieces_and_arrive_whole() -> None:
    first, second = b"1" * (2 * PIECE_BYTES + 5), b"2" * (PIECE_BYTES // 2)
    outbox = new_outbox()
    outbox.add(b"before")
    outbox.add([b"head", Piece(first), b"between", Piece(second), b"end"])
    outbox.add(b"after")
    pieces = []
    while outbox.size_bytes:
        pieces += written(outbox)
    size_bytes = len(first) + len(second) + len(b"headbetweenend")
    assert b"".join(pieces) == b"".join(
        [
            b"\0\0\0\x06before",
            size_bytes.to_bytes(4, "big") + b"head" + first + b"between" + second + b"end",
            b"\0\0\0\x05after",
        ]
    )
    assert max(map(len, pieces)) < PIECE_BYTES + 100


def test_a_file_that_is_cut_between_two_pieces_is_told_of() -> None:
    outbox = new_outbox()
    outbox.add([b"head", Piece(b"1" * PIECE_BYTES, announced=2 * PIECE_BYTES)])
    assert len(written(outbox)) == 1
    with pytest.raises(ShortRead):
        written(outbox)


def test_what_the_socket_takes_at_once_does_not_wait_for_the_transport() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        outbox, transport = Outbox(ours), Transport(buffered_bytes=0)
        outbox.add(b"small")
        assert outbox.write_to(cast("Any", transport)) == 9
        assert transport.writes == []
        assert theirs.recv(100) == b"\0\0\0\x05small"


def test_what_the_socket_does_not_take_is_left_to_the_transport() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        outbox, transport = Outbox(ours), Transport(buffered_bytes=0)
        large = bytes(range(256)) * 40_000
        outbox.add(large)
        assert outbox.write_to(cast("Any", transport)) == 4 + len(large)
        (rest,) = transport.writes
        ours.shutdown(socket.SHUT_WR)
        taken = b"".join(iter(lambda: theirs.recv(1 << 20), b""))
        assert 0 < len(taken) < len(large)
        assert taken + rest == len(large).to_bytes(4, "big") + large


def test_a_lost_socket_is_found_out_by_the_transport() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        outbox, transport = Outbox(ours), Transport(buffered_bytes=0)
        outbox.add(b"late")
        outbox.write_to(cast("Any", transport))
        assert transport.writes == [b"\0\0\0\x04late"]
