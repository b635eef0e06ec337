"""No bytes may raise anything but KafkaError, or cost more than the limit."""

from __future__ import annotations

import struct
import tracemalloc

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.kernel.errors import KafkaError
from ottla.records.batch import HEADER_BYTES, compute_crc, iter_headers
from ottla.records.builder import build_batch
from ottla.records.compression import Compression, compress, decompress
from ottla.records.record import Record, iter_records
from ottla.records.validation import ProducePolicy, validate_produced
from tests.support.counts import count

RECORDS = [
    Record(0, 1000, b"key", b"value" * 20, (("header", b"x"), ("null", None))),
    Record(1, 1001, None, b"z" * 3000),
    Record(2, 999, b"", None),
]
BATCHES = [bytes(build_batch(RECORDS, compression=kind)) for kind in Compression]
LIMIT_BYTES = 64 * 1024

POLICIES = [
    ProducePolicy(),
    ProducePolicy(is_compacted=True, timestamp_before_max_ms=1000),
    ProducePolicy(is_log_append_time=True, target_compression=Compression.NONE),
    ProducePolicy(target_compression=Compression.ZSTD, timestamp_after_max_ms=0),
]

EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 400), st.integers(0, 255)),
        st.tuples(st.just("flip"), st.integers(0, 400), st.integers(0, 7)),
        st.tuples(st.just("cut"), st.integers(0, 400), st.integers(1, 50)),
        st.tuples(st.just("insert"), st.integers(0, 400), st.integers(0, 255)),
        st.tuples(
            st.just("int"),
            st.integers(0, 200),
            st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 1 << 20]),
        ),
    ),
    max_size=6,
)


def mutate(batch: bytes, edits: list[tuple[str, int, int]]) -> bytearray:
    data = bytearray(batch)
    for kind, at, value in edits:
        at = min(at, len(data) - 1)
        if at < 0:
            break
        if kind == "set":
            data[at] = value
        elif kind == "flip":
            data[at] ^= 1 << value
        elif kind == "cut":
            del data[at : at + value]
        elif kind == "insert":
            data.insert(at, value)
        elif len(data) >= at + 4:
            struct.pack_into(">i", data, at, value)
    return data


def made_plausible(data: bytearray) -> bytearray:
    """Length, magic and CRC as they should be, so that what lies behind these gates is tried."""
    if len(data) >= HEADER_BYTES:
        struct.pack_into(">q", data, 0, 0)
        struct.pack_into(">i", data, 8, len(data) - 12)
        data[16] = 2
        struct.pack_into(">I", data, 17, compute_crc(data))
    return data


def read_all(data: bytearray) -> None:
    for allow_partial in (False, True):
        try:
            list(iter_headers(data, allow_partial=allow_partial))
        except KafkaError:
            pass
    try:
        list(iter_records(data, limit_bytes=LIMIT_BYTES))
    except KafkaError:
        pass


def try_everything(data: bytearray) -> None:
    read_all(data)
    for policy in POLICIES:
        try:
            batch, header = validate_produced(
                memoryview(bytearray(data)), policy, now_ms=1000, produce_version=12
            )
        except KafkaError:
            continue
        assert header.size_bytes == len(batch)
        assert header.record_count == header.last_offset_delta + 1 > 0


@settings(max_examples=count(5000))
@given(batch=st.sampled_from(BATCHES), edits=EDITS, plausible=st.booleans())
def test_damaged_batches(batch: bytes, edits: list[tuple[str, int, int]], plausible: bool) -> None:
    data = mutate(batch, edits)
    try_everything(made_plausible(data) if plausible else data)


@settings(max_examples=count(3000))
@given(data=st.binary(max_size=300), plausible=st.booleans())
def test_random_bytes(data: bytes, plausible: bool) -> None:
    try_everything(made_plausible(bytearray(data)) if plausible else bytearray(data))


@settings(max_examples=count(3000))
@given(
    data=st.binary(max_size=200),
    compression=st.sampled_from(Compression),
    claimed=st.integers(0, 60),
)
def test_random_records_behind_a_good_header(
    data: bytes, compression: Compression, claimed: int
) -> None:
    batch = bytearray(BATCHES[0][:HEADER_BYTES]) + compress(compression, data)
    struct.pack_into(">h", batch, 21, compression)
    struct.pack_into(">i", batch, 23, claimed - 1)
    struct.pack_into(">i", batch, 57, claimed)
    try_everything(made_plausible(batch))


@settings(max_examples=count(2000))
@given(
    kind=st.sampled_from([kind for kind in Compression if kind]),
    data=st.binary(max_size=400),
    edits=EDITS,
)
@example(kind=Compression.ZSTD, data=bytes(10_000_000), edits=[])
@example(kind=Compression.GZIP, data=bytes(10_000_000), edits=[])
@example(kind=Compression.LZ4, data=bytes(10_000_000), edits=[])
@example(kind=Compression.SNAPPY, data=bytes(10_000_000), edits=[])
def test_decompression_stays_within_its_limit(
    kind: Compression, data: bytes, edits: list[tuple[str, int, int]]
) -> None:
    packed = bytes(mutate(compress(kind, data), edits))
    tracemalloc.start()
    try:
        assert len(decompress(kind, packed, LIMIT_BYTES)) <= LIMIT_BYTES
    except KafkaError:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 4 * LIMIT_BYTES + 2 * len(packed)
