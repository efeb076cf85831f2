"""The five codecs of a record batch, with a limit on the output.

Called by record.py, scan.py and validation.py. The output is limited because a few kilobytes can
decompress to gigabytes. Invalid input raises CorruptRecord, whichever error the library raises.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeAlias

import cramjam
import lz4.frame
import zstandard

from floodmark.records.errors import CorruptRecord, DecompressionTooLarge
from floodmark.records.limits import READABLE_BYTES, STEP_BYTES

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
# After the magic: version and lowest compatible version, both 1, as the Java library writes them.
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = Struct(">i")
_GZIP_WBITS: Final = 31
# Three bytes copy at most 64.
_MOST_SNAPPY_RATIO: Final = 22

Buffer: TypeAlias = "bytes | bytearray | memoryview"


class Compression(IntEnum):
    """Codec ids, as in the lowest three attribute bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, codec_id: int) -> Compression:
        try:
            return cls(codec_id)
        except ValueError:
            raise CorruptRecord(f"unknown compression codec {codec_id}") from None

    @property
    def config_name(self) -> str:
        """The name that `compression.type` uses."""
        return "none" if self is Compression.NONE else self.name.lower()


def compress(
    codec: Compression, data: bytes | bytearray | memoryview, level: int | None = None
) -> bytes:
    """Compresses the records of a batch. Level None is the codec's default."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return packer.compress(data) + packer.flush()
    if codec is Compression.SNAPPY:
        return _xerial_compress(data)
    if codec is Compression.LZ4:
        # Independent 64 KiB blocks without checksums, as in Kafka's own frames.
        packed: bytes = lz4.frame.compress(
            data,
            compression_level=0 if level is None else level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return packed
    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def decompress(
    codec: Compression,
    data: bytes | bytearray | memoryview,
    limit_bytes: int = READABLE_BYTES,
) -> bytes | bytearray | memoryview:
    """Raises DecompressionTooLarge beyond `limit_bytes`, CorruptRecord for invalid data."""
    if codec is Compression.NONE:
        if len(data) > limit_bytes:
            raise _too_large(limit_bytes)
        return data
    return b"".join(unpack(codec, data, limit_bytes))


def unpack(
    codec: Compression, data: bytes | bytearray | memoryview, limit_bytes: int = READABLE_BYTES
) -> Iterator[Buffer]:
    """The same in pieces of at most STEP_BYTES. Pieces before an error remain valid."""
    left_bytes = limit_bytes
    for piece in _UNPACKERS[codec](memoryview(data), limit_bytes):
        left_bytes -= len(piece)
        if left_bytes < 0:
            raise _too_large(limit_bytes)
        yield piece


def _cut(data: Buffer) -> Iterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(view), STEP_BYTES):
        yield view[start : start + STEP_BYTES]


def _as_it_is(data: memoryview, _limit_bytes: int) -> Iterator[Buffer]:
    return _cut(data)


def _too_large(limit_bytes: int) -> DecompressionTooLarge:
    return DecompressionTooLarge(f"the records unpack to more than {limit_bytes} bytes")


def _gzip_pieces(data: memoryview, _limit_bytes: int) -> Iterator[Buffer]:
    unpacker = zlib.decompressobj(_GZIP_WBITS)
    # The library copies its unused input on every call, so pass small pieces.
    for source in _cut(data):
        rest: Buffer = source
        while rest and not unpacker.eof:
            try:
                piece = unpacker.decompress(rest, STEP_BYTES)
            except zlib.error as error:
                raise CorruptRecord(f"broken gzip data: {error}") from error
            rest = unpacker.unconsumed_tail
            if piece:
                yield piece
    while not unpacker.eof:
        try:
            piece = unpacker.decompress(b"", STEP_BYTES)
        except zlib.error as error:
            raise CorruptRecord(f"broken gzip data: {error}") from error
        if not piece:
            raise CorruptRecord("the gzip data ends early")
        yield piece


def _xerial_compress(data: bytes | bytearray | memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _snappy_pieces(data: memoryview, limit_bytes: int) -> Iterator[Buffer]:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        # librdkafka and others send one raw block without the Java library's framing.
        yield from _cut(_snappy_block(data, limit_bytes))
        return
    position = len(_XERIAL_HEADER)
    while position < len(data):
        try:
            (size,) = _INT32.unpack_from(data, position)
        except struct_error as error:
            raise CorruptRecord("the snappy data ends in the middle of a block size") from error
        position += 4
        if size <= 0 or size > len(data) - position:
            raise CorruptRecord(f"snappy block of {size} bytes, {len(data) - position} left")
        yield from _cut(_snappy_block(data[position : position + size], limit_bytes))
        position += size


def _snappy_block(block: memoryview, limit_bytes: int) -> bytes:
    try:
        claimed_bytes = cramjam.snappy.decompress_raw_len(block)
        if claimed_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        if claimed_bytes > _MOST_SNAPPY_RATIO * len(block):
            # The library allocates the claimed size before it reads the data.
            raise CorruptRecord(f"{len(block)} bytes of snappy cannot unpack to {claimed_bytes}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"broken snappy data: {error}") from error


def _lz4_pieces(data: memoryview, _limit_bytes: int) -> Iterator[Buffer]:
    unpacker = lz4.frame.LZ4FrameDecompressor()
    sources = _cut(data)
    while not unpacker.eof:
        # In small pieces: the library copies its unused input on every call, and allocates
        # max_length bytes at once.
        source = next(sources, b"") if unpacker.needs_input else b""
        try:
            piece: bytes = unpacker.decompress(source, max_length=STEP_BYTES)
        except (RuntimeError, EOFError) as error:
            raise CorruptRecord(f"broken lz4 data: {error}") from error
        if piece:
            yield piece
        elif not source and not unpacker.eof:
            raise CorruptRecord("the lz4 frame ends early")


def _zstd_pieces(data: memoryview, _limit_bytes: int) -> Iterator[Buffer]:
    """As a stream: Java's frames do not contain the content size, and it could be wrong."""
    size_bytes = 0
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            while piece := reader.read(STEP_BYTES):
                size_bytes += len(piece)
                yield piece
        claimed_bytes = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise CorruptRecord(f"broken zstd data: {error}") from error
    if size_bytes < claimed_bytes:
        raise CorruptRecord("the zstd frame ends early")


_UNPACKERS: Final[dict[Compression, Callable[[memoryview, int], Iterator[Buffer]]]] = {
    Compression.NONE: _as_it_is,
    Compression.GZIP: _gzip_pieces,
    Compression.SNAPPY: _snappy_pieces,
    Compression.LZ4: _lz4_pieces,
    Compression.ZSTD: _zstd_pieces,
}
