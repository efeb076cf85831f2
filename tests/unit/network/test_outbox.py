"""The answers of one turn are one write to the port, in their order, as far as it takes them."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from floodmark.network.plain_port import PlainPort
from floodmark.network.port import Slice
from floodmark.network.transfer import (
    PIECE_BYTES,
    READ_AHEAD_BYTES,
    SENT_AT_ONCE_BYTES,
    SMALL_BYTES,
    Outbox,
    ShortRead,
)
from floodmark.storage.files import FileSlice, RealFiles


class Piece:
    """A slice of a file that the kernel cannot send, as far as an outbox looks at it."""

    def __init__(self, data: bytes, announced: int | None = None) -> None:
        self._data = data
        self._announced = len(data) if announced is None else announced
        self.largest_read_bytes = self.all_read_bytes = 0
        self.is_let_go = False

    def __len__(self) -> int:
        return self._announced

    def read(self, start: int, size: int) -> bytes:
        self.largest_read_bytes = max(self.largest_read_bytes, size)
        self.all_read_bytes += size
        return self._data[start : start + size]

    def send_to(self, socket_number: int, start: int, size: int) -> int:
        return 0

    def let_go(self) -> None:
        self.is_let_go = True


class Ends:
    """Our end of a connection with an outbox, and the peer's."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self.ours, self.theirs = ours, theirs
        # Nothing is watched here, so it needs no loop.
        self.outbox = Outbox(PlainPort(ours, cast("Any", None)))

    def packets(self) -> list[bytes]:
        """What each write has sent: these sockets keep them apart."""
        self.outbox.send()
        self.ours.shutdown(socket.SHUT_WR)
        return list(iter(lambda: self.theirs.recv(1 << 20), b""))

    def taken_by_a_slow_peer(self) -> bytes:
        """All of it, from a peer that reads only when nothing more can be sent."""
        taken = bytearray()
        while self.outbox.size_bytes:
            left_bytes = self.outbox.size_bytes
            assert self.outbox.send() == left_bytes - self.outbox.size_bytes
            taken += self.theirs.recv(1 << 20)
        self.ours.shutdown(socket.SHUT_WR)
        while part := self.theirs.recv(1 << 20):
            taken += part
        return bytes(taken)


def _ends(kind: socket.SocketKind) -> Iterator[Ends]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(10)
        yield Ends(ours, theirs)


@pytest.fixture
def ends() -> Iterator[Ends]:
    yield from _ends(socket.SOCK_STREAM)


@pytest.fixture
def packet_ends() -> Iterator[Ends]:
    yield from _ends(socket.SOCK_SEQPACKET)


def test_several_answers_are_one_write(packet_ends: Ends) -> None:
    packet_ends.outbox.add(b"one")
    packet_ends.outbox.add([b"t", Piece(b"wo")])
    assert packet_ends.packets() == [b"\0\0\0\x03one\0\0\0\x03two"]
    assert packet_ends.outbox.size_bytes == 0


def test_a_large_answer_is_told_to_be_large(ends: Ends) -> None:
    records = bytes(SMALL_BYTES)
    ends.outbox.add([b"head", Piece(records)])
    assert ends.outbox.size_bytes > SMALL_BYTES
    expected = (SMALL_BYTES + 4).to_bytes(4, "big") + b"head" + records
    assert ends.taken_by_a_slow_peer() == expected


def test_of_an_answer_that_the_file_cannot_fill_nothing_is_sent(ends: Ends) -> None:
    ends.outbox.add(b"before")
    with pytest.raises(ShortRead):
        ends.outbox.add([b"head", Piece(b"too little", announced=100)])
    assert ends.taken_by_a_slow_peer() == b"\0\0\0\x06before"


def test_large_slices_are_read_in_pieces_and_arrive_whole(ends: Ends) -> None:
    first, second = Piece(b"1" * (2 * PIECE_BYTES + 5)), Piece(b"2" * (PIECE_BYTES // 2))
    ends.outbox.add(b"before")
    ends.outbox.add([b"head", first, b"between", second, b"end"])
    ends.outbox.add(b"after")
    size_bytes = len(first) + len(second) + len(b"headbetweenend")
    assert ends.taken_by_a_slow_peer() == b"".join(
        [
            b"\0\0\0\x06before",
            size_bytes.to_bytes(4, "big") + b"head" + b"1" * len(first) + b"between",
            b"2" * len(second) + b"end",
            b"\0\0\0\x05after",
        ]
    )
    assert first.largest_read_bytes == PIECE_BYTES


def test_of_many_small_slices_only_a_few_are_in_memory_while_the_peer_does_not_read(
    ends: Ends,
) -> None:
    pieces = [Piece(bytes([number % 251]) * (SMALL_BYTES - number)) for number in range(500)]
    ends.outbox.add([part for piece in pieces for part in (b"head", piece)])
    assert sum(piece.all_read_bytes for piece in pieces) <= READ_AHEAD_BYTES
    assert all(piece.is_let_go for piece in pieces if not piece.all_read_bytes)
    sent_bytes = ends.outbox.send()
    assert ends.outbox.send() == 0, "the peer takes no more"
    in_memory_bytes = sum(piece.all_read_bytes for piece in pieces) - sent_bytes
    assert in_memory_bytes <= READ_AHEAD_BYTES + SMALL_BYTES
    taken = ends.taken_by_a_slow_peer()
    assert taken[4:] == b"".join(b"head" + piece.read(0, len(piece)) for piece in pieces)
    assert sum(piece.all_read_bytes for piece in pieces) == 2 * sum(map(len, pieces)), "read once"


def test_slices_of_real_files_arrive_whole_without_being_read(
    ends: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(251)) * 20_000
    (tmp_path / "log").write_bytes(content)
    file = RealFiles().open(tmp_path / "log")
    ends.outbox.add([b"head", FileSlice(file, 7, 3_000_000), b"end"])
    ends.outbox.add([FileSlice(file, 0, len(content))])
    with monkeypatch.context() as patched:
        patched.delattr(FileSlice, "read")
        taken = ends.taken_by_a_slow_peer()
    file.close()
    assert taken == b"".join(
        [
            (3_000_007).to_bytes(4, "big") + b"head" + content[7:3_000_007] + b"end",
            len(content).to_bytes(4, "big") + content,
        ]
    )


def test_a_file_that_is_cut_between_two_pieces_is_told_of_once(ends: Ends) -> None:
    ends.outbox.add([b"head", Piece(b"1" * PIECE_BYTES, announced=2 * PIECE_BYTES)])
    with pytest.raises(ShortRead):
        ends.taken_by_a_slow_peer()
    assert (ends.outbox.size_bytes, ends.outbox.send()) == (0, 0)


def test_what_the_socket_does_not_take_stays(ends: Ends) -> None:
    large = bytes(range(256)) * 40_000
    ends.outbox.add(large)
    sent_bytes = ends.outbox.send()
    assert 0 < sent_bytes < len(large)
    assert ends.outbox.size_bytes == 4 + len(large) - sent_bytes
    ends.outbox.add(b"after")
    expected = len(large).to_bytes(4, "big") + large + b"\0\0\0\x05after"
    assert ends.taken_by_a_slow_peer() == expected


def test_a_lost_peer_is_told_of(ends: Ends) -> None:
    ends.theirs.close()
    ends.outbox.add(b"late")
    with pytest.raises(ConnectionError):
        ends.outbox.send()


class Taking:
    """A port that takes so much at a time, never says that it is full, and has no `sendfile`."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self.taken = bytearray()

    def send(self, data: bytes) -> int:
        part = data[: self._size_bytes]
        self.taken += part
        return len(part)

    send_more = send

    def send_slice(self, part: Slice, start: int, size: int) -> int:
        return 0


def outbox_of(taking: Taking) -> Outbox:
    return Outbox(cast("Any", taking))


@pytest.mark.parametrize("size_bytes", [1, 3, 10])
def test_a_part_of_joined_answers_is_not_sent_again(size_bytes: int) -> None:
    taking = Taking(size_bytes)
    outbox = outbox_of(taking)
    for answer in (b"one", b"two", b"three"):
        outbox.add(answer)
    assert outbox.send() == 23
    assert taking.taken == b"\0\0\0\x03one\0\0\0\x03two\0\0\0\x05three"


def test_a_fast_reader_does_not_keep_the_others_waiting_for_a_large_answer() -> None:
    content = bytes(range(256)) * 40_000
    taking = Taking(1 << 30)
    outbox = outbox_of(taking)
    outbox.add([b"head", Piece(content), b"end"])
    sent = []
    while outbox.size_bytes:
        sent.append(outbox.send())
    assert max(sent) < 2 * SENT_AT_ONCE_BYTES
    assert len(sent) > 3
    assert taking.taken == (len(content) + 7).to_bytes(4, "big") + b"head" + content + b"end"


def test_a_port_without_sendfile_is_sent_what_is_read_of_the_file(tmp_path: Path) -> None:
    content = bytes(range(251)) * 5_000
    (tmp_path / "log").write_bytes(content)
    file = RealFiles().open(tmp_path / "log")
    taking = Taking(100_000)
    outbox = outbox_of(taking)
    outbox.add([b"head", FileSlice(file, 7, 1_000_000), b"end"])
    while outbox.size_bytes:
        outbox.send()
    file.close()
    assert taking.taken == (1_000_007).to_bytes(4, "big") + b"head" + content[7:1_000_007] + b"end"
