"""The four codecs a batch may use, as Kafka's clients write them.

gzip is the standard library's; snappy, lz4 and zstd come from cramjam (one wheel for the three,
it takes buffers, releases the GIL, and writes into memory of a given size, so that a bomb of a few
bytes cannot make a broker allocate more than it allowed). cramjam is imported on first use: a
broker that stores batches as they come never needs it.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.errors import CorruptRecord

if TYPE_CHECKING:
    from ottla.records.batch import Buffer


class Compression(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_GZIP_WBITS = 16 + zlib.MAX_WBITS

# The stream format of the snappy-java library, which Kafka's Java clients write: this header
# (magic, version, lowest compatible version), then blocks, each behind its length.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")

# Kafka's default lz4 level, 9, does not mean what lz4 calls level 9 (high compression): Kafka
# takes the fast compressor for it (KIP-390). cramjam's fast one is level 1.
_KAFKA_LZ4_DEFAULT_LEVEL = 9
_LZ4_FAST_LEVEL = 1

_FIRST_GUESS_BYTES = 64 * 1024
_GROWTH = 4
_OUTPUT_FULL = "failed to write whole buffer"


class _Decompressor(Protocol):
    def decompress_into(self, data: Buffer, output: bytearray, /) -> int: ...


def compress(kind: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`level` is what `compression.<codec>.level` says; None is Kafka's default."""
    if kind is Compression.NONE:
        return bytes(data)
    if kind is Compression.GZIP:
        deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return deflate.compress(data) + deflate.flush()
    import cramjam

    if kind is Compression.SNAPPY:
        return _compress_snappy(data)
    if kind is Compression.LZ4:
        # Kafka's Java reader refuses blocks that refer to earlier blocks.
        if level is None or level == _KAFKA_LZ4_DEFAULT_LEVEL:
            level = _LZ4_FAST_LEVEL
        lz4 = cramjam.lz4.Compressor(level, content_checksum=False, block_linked=False)
        lz4.compress(bytes(data))
        return bytes(lz4.finish())
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(kind: Compression, data: Buffer, limit_bytes: int) -> bytes:
    """Raises CorruptRecord, or MESSAGE_TOO_LARGE when there is more than `limit_bytes`."""
    if kind is Compression.NONE:
        if len(data) > limit_bytes:
            raise _too_large(kind, limit_bytes)
        return bytes(data)
    if kind is Compression.GZIP:
        return _decompress_gzip(data, limit_bytes)
    if kind is Compression.SNAPPY:
        return _decompress_snappy(data, limit_bytes)
    import cramjam

    codec: _Decompressor = cramjam.lz4 if kind is Compression.LZ4 else cramjam.zstd
    capacity_bytes = min(limit_bytes, max(_FIRST_GUESS_BYTES, _GROWTH * len(data)))
    while True:
        output = bytearray(capacity_bytes)
        try:
            size = codec.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise _corrupt(kind, error) from None
            if capacity_bytes == limit_bytes:
                raise _too_large(kind, limit_bytes) from None
            capacity_bytes = min(limit_bytes, capacity_bytes * _GROWTH)
        else:
            return bytes(memoryview(output)[:size])


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    """One member or several, as RFC 1952 allows and Java reads."""
    output = bytearray()
    rest: Buffer = data
    try:
        while True:
            member = zlib.decompressobj(_GZIP_WBITS)
            output += member.decompress(rest, limit_bytes - len(output) + 1)
            if len(output) > limit_bytes:
                raise _too_large(Compression.GZIP, limit_bytes)
            if not member.eof:
                raise _corrupt(Compression.GZIP, "the stream ends too early")
            rest = member.unused_data
            if not rest:
                return bytes(output)
    except zlib.error as error:
        raise _corrupt(Compression.GZIP, error) from None


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> bytes:
    """The Java stream format, or one raw block, as other clients have written it."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return bytes(_decompress_snappy_block(view, limit_bytes))
    output = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if len(view) - position < _INT32.size:
            raise _corrupt(Compression.SNAPPY, "the stream ends inside of a length")
        (size,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 <= size <= len(view) - position:
            raise _corrupt(Compression.SNAPPY, f"a block claims {size} bytes")
        block = view[position : position + size]
        output += _decompress_snappy_block(block, limit_bytes - len(output))
        position += size
    return bytes(output)


def _decompress_snappy_block(block: memoryview, limit_bytes: int) -> bytearray:
    from cramjam import DecompressionError, snappy

    try:
        size = snappy.decompress_raw_len(block)
        if size > limit_bytes:
            raise _too_large(Compression.SNAPPY, limit_bytes)
        output = bytearray(size)
        snappy.decompress_raw_into(block, output)
    except DecompressionError as error:
        raise _corrupt(Compression.SNAPPY, error) from None
    return output


def _corrupt(kind: Compression, reason: object) -> CorruptRecord:
    return CorruptRecord(f"cannot decompress {kind.name.lower()}: {reason}")


def _too_large(kind: Compression, limit_bytes: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the {kind.name.lower()} data decompresses to more than the {limit_bytes} bytes allowed",
    )
