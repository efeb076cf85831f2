"""Batches of a few kilobytes that unpack to very much, in every way we can think of."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache

import cramjam
import lz4.frame
import zstandard

from floodmark.records.batch import HEADER, HEADER_BYTES, compute_crc
from floodmark.records.compression import Compression, compress
from floodmark.records.record import Record, encode_batch, encode_varint

LARGEST_BYTES = 3800
"""So that a request with a bomb in it has less than 4 KB."""

NOW_MS = 1_700_000_000_000
MILLION = 1_000_000


XERIAL_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
"""In front of the blocks that the Java library writes."""

LARGEST_RATIO = {
    Compression.NONE: 1,
    Compression.SNAPPY: 22,
    Compression.LZ4: 255,
    Compression.GZIP: 1032,
    Compression.ZSTD: 100_000,
}
"""What no input is compressed by more than."""


@cache
def bombs() -> list[tuple[str, bytes]]:
    return list(_bombs())


def _bombs() -> Iterator[tuple[str, bytes]]:
    """Name and batch; all have a good checksum and a good header."""
    for what, unpacked, count in _contents():
        for codec in Compression:
            packed = _packed(codec, unpacked)
            if packed is not None:
                yield f"{codec.name} {what}", batch_of(codec, packed, count)
    claims = encode_varint(100 * MILLION) + bytes(100)  # as an unsigned varint: 200 MB
    yield "SNAPPY that claims 200 MB", batch_of(Compression.SNAPPY, claims, 1)
    yield "ZSTD with the largest window", batch_of(Compression.ZSTD, _wide_zstd(), 1)
    yield "ZSTD of zstd", _nested()
    yield from _odd_frames()


def _odd_frames() -> Iterator[tuple[str, bytes]]:
    """Frames that lie about their size, and floods of frames."""
    record = _record(bytes(MILLION), key=b"k")
    frame = bytearray(lz4.frame.compress(record, store_size=True))
    frame[6:14] = (2**62).to_bytes(8, "little")
    yield "LZ4 that claims 4 EB", batch_of(Compression.LZ4, bytes(frame[:LARGEST_BYTES]), 1)
    small = lz4.frame.compress(bytes(60_000), block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    many = small * (LARGEST_BYTES // len(small))
    yield "LZ4 of many frames", batch_of(Compression.LZ4, many, 1)
    # Magic, a descriptor without a size, the largest window that the format has, one empty block.
    window = bytes.fromhex("28b52ffd 00 ff 010000")
    yield "ZSTD with a window of 3 TB", batch_of(Compression.ZSTD, window, 1)
    small = zstandard.ZstdCompressor().compress(bytes(MILLION))
    many = small * (LARGEST_BYTES // len(small))
    yield "ZSTD of many frames", batch_of(Compression.ZSTD, many, 1)
    block = bytes(cramjam.snappy.compress_raw(bytes(100)))
    many = XERIAL_HEADER + (len(block).to_bytes(4, "big") + block) * (3000 // (len(block) + 4))
    yield "SNAPPY of many blocks", batch_of(Compression.SNAPPY, many, 1)


def _contents() -> Iterator[tuple[str, bytes, int]]:
    """What is said of the unpacked bytes, the bytes, and how many records the header claims."""
    tiny = _record(b"", offset_delta=0)
    keyed = _record(b"", offset_delta=0, key=b"")
    for what, one in (("tiny records", tiny), ("tiny records with a key", keyed)):
        for count in (2 * MILLION, MILLION // 2, 240_000, 100_000, 10_000):
            yield f"{count} {what}", one * count, count
    yield "far more records than it says", tiny * 2 * MILLION, 1
    yield "far fewer records than it says", tiny * 100, 2**31 - 1
    long = bytes((14 + 2 * 9,)) + b"\0" + b"\x80" * 9 + b"\0" + b"\x80" * 9 + b"\0\x01\x01\0"
    long = encode_varint(len(long) - 1) + long[1:]
    yield "long varints", long * (MILLION // 2), MILLION // 2
    for size in (100 * MILLION, 15 * MILLION, 8 * MILLION, MILLION):
        yield f"one record of {size} bytes", _record(bytes(size), key=b"k"), 1
    for count in (4 * MILLION, 240_000, 100_000):
        yield f"{count} headers", _record(b"", key=b"k", headers=count), 1
    yield "a record that claims 2 GB", encode_varint(2**31 - 1) + bytes(8 * MILLION), 1


def _record(
    value: bytes, *, offset_delta: int = 0, key: bytes | None = None, headers: int = 0
) -> bytes:
    body = b"".join(
        (
            b"\0\0",
            encode_varint(offset_delta),
            encode_varint(-1) if key is None else encode_varint(len(key)) + key,
            encode_varint(len(value)),
            value,
            encode_varint(headers),
            b"\0\0" * headers,
        )
    )
    return encode_varint(len(body)) + body


def _packed(codec: Compression, unpacked: bytes) -> bytes | None:
    """None for what does not fit into a small request."""
    if len(unpacked) > LARGEST_RATIO[codec] * LARGEST_BYTES:
        return None
    if codec is Compression.NONE:
        packed = unpacked
    elif codec is Compression.GZIP:
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        packed = packer.compress(unpacked) + packer.flush()
    elif codec is Compression.SNAPPY:
        packed = bytes(cramjam.snappy.compress_raw(unpacked))
    elif codec is Compression.LZ4:
        packed = lz4.frame.compress(unpacked, compression_level=9)
    else:
        packed = zstandard.ZstdCompressor(level=6).compress(unpacked)
    return packed if len(packed) <= LARGEST_BYTES else None


def _wide_zstd() -> bytes:
    """Of a stream, as Java writes it: the frame claims 128 MiB of window and no size."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, compression_level=3)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(_record(bytes(8 * MILLION), key=b"k")) + packer.flush()


def _nested() -> bytes:
    inner = encode_batch(
        [Record(0, NOW_MS, b"k", bytes(MILLION), [])], compression=Compression.ZSTD
    )
    record = _record(bytes(inner) * 10_000, key=b"k")
    return batch_of(Compression.ZSTD, compress(Compression.ZSTD, record), 1)


def batch_of(codec: Compression, packed: bytes, count: int) -> bytes:
    """The header claims a time that no record has: who looks for it looks at all of them."""
    batch = bytearray(HEADER_BYTES + len(packed))
    size = len(batch) - 12
    head = (0, size, -1, 2, 0, int(codec), count - 1, NOW_MS, NOW_MS + 10, -1, -1, -1, count)
    HEADER.pack_into(batch, 0, *head)
    batch[HEADER_BYTES:] = packed
    batch[17:21] = compute_crc(batch, 0, len(batch)).to_bytes(4, "big")
    return bytes(batch)
