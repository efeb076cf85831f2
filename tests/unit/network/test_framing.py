"""Bytes to frames, whatever way the bytes arrive in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floodmark.network.framing import INITIAL_BYTES, FrameBuffer, FrameTooLarge

LIMIT = 1 << 20


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def feed(buffer: FrameBuffer, data: bytes) -> list[bytes]:
    """Receives `data` as a transport would and takes out every frame that becomes whole."""
    frames = []
    while data:
        room = buffer.view[buffer.end :]
        size = min(len(room), len(data))
        room[:size] = data[:size]
        buffer.end += size
        data = data[size:]
        while (frame := buffer.next_frame()) is not None:
            frames.append(bytes(frame))
            buffer.release()
    return frames


@given(st.lists(st.binary(max_size=9000), max_size=8), st.lists(st.integers(1, 5000), min_size=1))
def test_frames_come_out_whole_however_the_bytes_are_cut(payloads, cuts):
    buffer = FrameBuffer(LIMIT)
    stream = b"".join(map(framed, payloads))
    frames = []
    position = 0
    turn = 0
    while position < len(stream):
        size = cuts[turn % len(cuts)]
        frames += feed(buffer, stream[position : position + size])
        position += size
        turn += 1
    assert frames == payloads


def test_a_lying_length_costs_no_memory():
    buffer = FrameBuffer(100 << 20)
    assert feed(buffer, (90 << 20).to_bytes(4, "big") + b"x" * 100) == []
    assert buffer.capacity_bytes == INITIAL_BYTES


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_an_impossible_length_is_refused(length):
    buffer = FrameBuffer(LIMIT)
    with pytest.raises(FrameTooLarge):
        feed(buffer, length.to_bytes(4, "big", signed=True))


def test_a_frame_in_use_is_not_overwritten_by_what_follows():
    buffer = FrameBuffer(LIMIT)
    data = framed(b"first") + framed(b"second")
    buffer.view[: len(data)] = data
    buffer.end += len(data)
    first = buffer.next_frame()
    room = buffer.view[buffer.end :]
    room[:] = b"\xff" * len(room)
    assert bytes(first) == b"first"


def test_room_for_large_frames_is_given_back():
    buffer = FrameBuffer(LIMIT)
    assert feed(buffer, framed(b"x" * 500_000)) == [b"x" * 500_000]
    assert buffer.capacity_bytes > 500_000
    buffer.shrink()
    assert buffer.capacity_bytes == INITIAL_BYTES
    assert feed(buffer, framed(b"again")) == [b"again"]
