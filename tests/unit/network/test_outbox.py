"""The answers of one turn go to the socket in one write, in their order."""

from typing import Any, cast

import pytest

from floodmark.network.transfer import SMALL_BYTES, Outbox, ShortRead


class Transport:
    """Keeps what each call wrote."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    def writelines(self, chunks: list[bytes]) -> None:
        self.writes.append(b"".join(chunks))


class Piece:
    """A slice of a file, as far as an outbox looks at it."""

    def __init__(self, data: bytes, announced: int | None = None) -> None:
        self._data = data
        self._announced = len(data) if announced is None else announced

    def __len__(self) -> int:
        return self._announced

    def read(self) -> bytes:
        return self._data


def written(outbox: Outbox) -> list[bytes]:
    transport = Transport()
    outbox.write_to(cast("Any", transport))
    return transport.writes


def test_several_answers_are_one_write() -> None:
    outbox = Outbox()
    assert outbox.add(b"one") == 3
    assert outbox.add([b"t", Piece(b"wo")]) == 3
    assert written(outbox) == [b"\0\0\0\x03one\0\0\0\x03two"]
    assert outbox.size_bytes == 0


def test_a_large_answer_is_written_whole_and_told_to_be_large() -> None:
    outbox = Outbox()
    records = bytes(SMALL_BYTES)
    outbox.add([b"head", Piece(records)])
    assert outbox.size_bytes > SMALL_BYTES
    assert written(outbox) == [(SMALL_BYTES + 4).to_bytes(4, "big") + b"head" + records]
    assert outbox.size_bytes == 0


def test_of_an_answer_that_the_file_cannot_fill_nothing_is_sent() -> None:
    outbox = Outbox()
    outbox.add(b"before")
    with pytest.raises(ShortRead):
        outbox.add([b"head", Piece(b"too little", announced=100)])
    assert written(outbox) == [b"\0\0\0\x06before"]
