from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from cramjam import snappy

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.records.batch import is_crc_valid, parse_header
from ottla.records.compression import Compression, compress, decompress
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record, iter_records

CODECS = [kind for kind in Compression if kind is not Compression.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog. " * 5000
LIMIT = 10_000_000

# What Apache Kafka 4.3 stored when a topic's compression.type made it compress these.
JAVA_RECORDS = [
    Record(0, 1700000000000, b"key", b"value", (("h", "é".encode()), ("n", None))),
    Record(1, 1700000000005, None, b"ottla " * 12000),
    Record(2, 1699999999999, b"", None),
]


@pytest.mark.parametrize("kind", CODECS)
def test_reads_what_java_wrote(kind: Compression) -> None:
    path = Path(__file__).parent / "data" / f"java_{kind.name.lower()}.batch"
    batch = path.read_bytes()
    assert is_crc_valid(batch)
    assert parse_header(batch).compression == kind
    assert list(iter_records(batch)) == JAVA_RECORDS


@pytest.mark.parametrize("kind", Compression)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, bytes(300_000), random.Random(0).randbytes(70_000)]
)
def test_both_ways(kind: Compression, data: bytes) -> None:
    packed = compress(kind, memoryview(bytearray(data)))
    assert decompress(kind, memoryview(packed), LIMIT) == data
    assert decompress(kind, packed, len(data)) == data


@pytest.mark.parametrize("kind", Compression)
def test_more_than_the_limit_is_too_large(kind: Compression) -> None:
    packed = compress(kind, TEXT)
    for limit_bytes in (0, 1, len(TEXT) - 1):
        with pytest.raises(KafkaError) as caught:
            decompress(kind, packed, limit_bytes)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("kind", CODECS)
def test_what_is_not_compressed_is_corrupt(kind: Compression) -> None:
    packed = compress(kind, TEXT)
    for wrong in (b"", b"\xff" * 40, packed[: len(packed) // 2], packed[:-1], b"zz" + packed):
        with pytest.raises(CorruptRecord, match=kind.name.lower()):
            decompress(kind, wrong, LIMIT)


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        (Compression.GZIP, (-1, 1, 9)),
        (Compression.LZ4, (1, 9, 12, 17)),
        (Compression.ZSTD, (-131072, 1, 3, 22)),
    ],
)
def test_every_level_that_kafka_allows(kind: Compression, levels: tuple[int, ...]) -> None:
    rng = random.Random(1)
    words = b" ".join(rng.choice((b"alpha", b"beta", b"gamma", b"delta")) for _ in range(9000))
    for level in levels:
        assert decompress(kind, compress(kind, words, level), LIMIT) == words
    assert len(compress(kind, words, levels[-1])) < len(compress(kind, words, 1))


def test_kafkas_default_lz4_level_is_the_fast_one() -> None:
    default = compress(Compression.LZ4, TEXT)
    assert compress(Compression.LZ4, TEXT, 9) == default
    assert compress(Compression.LZ4, TEXT, 10) != default


def test_lz4_blocks_are_independent_since_java_reads_no_others() -> None:
    flags = compress(Compression.LZ4, TEXT)[4]
    assert flags & 0x20


def test_snappy_is_in_javas_blocks_of_32_kib() -> None:
    packed = compress(Compression.SNAPPY, TEXT)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    (size,) = struct.unpack_from(">i", packed, 16)
    assert snappy.decompress_raw_len(packed[20 : 20 + size]) == 32 * 1024


def test_snappy_without_javas_framing_is_accepted() -> None:
    assert decompress(Compression.SNAPPY, bytes(snappy.compress_raw(TEXT)), LIMIT) == TEXT


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 5])
def test_a_snappy_block_is_inside_of_its_stream(size: int) -> None:
    header = compress(Compression.SNAPPY, b"")
    with pytest.raises(CorruptRecord, match="block claims"):
        decompress(Compression.SNAPPY, header + struct.pack(">i", size) + b"abc", LIMIT)
    with pytest.raises(CorruptRecord, match="length"):
        decompress(Compression.SNAPPY, header + b"\x00", LIMIT)


def test_gzip_may_have_several_members_but_the_limit_is_for_all() -> None:
    packed = compress(Compression.GZIP, TEXT) * 2
    assert decompress(Compression.GZIP, packed, LIMIT) == TEXT * 2
    with pytest.raises(KafkaError, match="more than"):
        decompress(Compression.GZIP, packed, len(TEXT) + 1)


def test_codecs_are_imported_when_they_are_needed() -> None:
    code = (
        "import sys; import ottla.records.validation, ottla.records.builder; "
        "assert 'cramjam' not in sys.modules; "
        "from ottla.records.compression import *; compress(Compression.ZSTD, b''); "
        "assert 'cramjam' in sys.modules"
    )
    source = str(Path(__file__).parents[3] / "src")
    environment = {**os.environ, "PYTHONPATH": source}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)
