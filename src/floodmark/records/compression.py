"""The five codecs of a record batch, with a bound on what may come out.

Called by record.py and validation.py. The output bound is there because a batch of a few kilobytes
can unpack to gigabytes; broken input is always CorruptRecord, whatever the library raises.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import Final

import cramjam
import lz4.frame
import zstandard

from floodmark.records.errors import CorruptRecord, DecompressionTooLarge

# Far above any batch that max.message.bytes lets in at usual ratios, far below what would hurt a
# broker.
DEFAULT_OUTPUT_LIMIT_BYTES: Final = 256 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
# After the magic: version and lowest compatible version, both 1, as the Java library writes them.
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = Struct(">i")
_GZIP_WBITS: Final = 31
_CHUNK_BYTES: Final = 64 * 1024


class Compression(IntEnum):
    """Codec ids as they stand in the lowest three attribute bits."""

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
    """Pack the records part of a batch; level None is the codec's own default."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return packer.compress(data) + packer.flush()
    if codec is Compression.SNAPPY:
        return _xerial_compress(data)
    if codec is Compression.LZ4:
        # Independent 64 KiB blocks without checksums, as Kafka's own frames are.
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
    limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
) -> bytes | bytearray | memoryview:
    """Unpack at most limit_bytes; more raises DecompressionTooLarge, nonsense raises
    CorruptRecord."""
    if codec is Compression.NONE:
        if len(data) > limit_bytes:
            raise _too_large(limit_bytes)
        return data
    if codec is Compression.GZIP:
        return _gzip_decompress(data, limit_bytes)
    if codec is Compression.SNAPPY:
        return _snappy_decompress(data, limit_bytes)
    if codec is Compression.LZ4:
        return _lz4_decompress(data, limit_bytes)
    return _zstd_decompress(data, limit_bytes)


def _too_large(limit_bytes: int) -> DecompressionTooLarge:
    return DecompressionTooLarge(f"the records unpack to more than {limit_bytes} bytes")


def _gzip_decompress(data: bytes | bytearray | memoryview, limit_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WBITS)
    try:
        # One byte more than allowed tells a full output from one that was cut.
        output = unpacker.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise CorruptRecord(f"broken gzip data: {error}") from error
    if len(output) > limit_bytes:
        raise _too_large(limit_bytes)
    if not unpacker.eof:
        raise CorruptRecord("the gzip data ends early")
    return output


def _xerial_compress(data: bytes | bytearray | memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _snappy_decompress(data: bytes | bytearray | memoryview, limit_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        # librdkafka and others send one raw block without the Java library's framing.
        return _snappy_block(view, limit_bytes)
    position = len(_XERIAL_HEADER)
    parts: list[bytes] = []
    left_bytes = limit_bytes
    while position < len(view):
        try:
            (size,) = _INT32.unpack_from(view, position)
        except struct_error as error:
            raise CorruptRecord("the snappy data ends in the middle of a block size") from error
        position += 4
        if size <= 0 or size > len(view) - position:
            raise CorruptRecord(f"snappy block of {size} bytes, {len(view) - position} left")
        block = _snappy_block(view[position : position + size], left_bytes)
        left_bytes -= len(block)
        parts.append(block)
        position += size
    return b"".join(parts)


def _snappy_block(block: memoryview, limit_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > limit_bytes:
            raise _too_large(limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"broken snappy data: {error}") from error


def _lz4_decompress(data: bytes | bytearray | memoryview, limit_bytes: int) -> bytes:
    unpacker = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    size_bytes = 0
    source: bytes | bytearray | memoryview = data
    while not unpacker.eof:
        try:
            # In chunks, because the library sets aside max_length bytes at once.
            chunk: bytes = unpacker.decompress(source, max_length=_CHUNK_BYTES)
        except (RuntimeError, EOFError) as error:
            raise CorruptRecord(f"broken lz4 data: {error}") from error
        source = b""
        size_bytes += len(chunk)
        if size_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        if not chunk and not unpacker.eof:
            raise CorruptRecord("the lz4 frame ends early")
        parts.append(chunk)
    return b"".join(parts)


def _zstd_decompress(data: bytes | bytearray | memoryview, limit_bytes: int) -> bytes:
    """By a stream and in chunks: Java's frames do not say their content size, and a size is only a
    claim."""
    parts: list[bytes] = []
    size_bytes = 0
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            while chunk := reader.read(_CHUNK_BYTES):
                size_bytes += len(chunk)
                if size_bytes > limit_bytes:
                    raise _too_large(limit_bytes)
                parts.append(chunk)
        claimed_bytes = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise CorruptRecord(f"broken zstd data: {error}") from error
    if size_bytes < claimed_bytes:
        raise CorruptRecord("the zstd frame ends early")
    return b"".join(parts)
