from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.sink.partitioner import TOGETHER, Partitioner, murmur2, partitions_of_keys

# Those of UtilsTest in Apache Kafka.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def plain_murmur2(key: bytes) -> int:
    """One at a time, as the algorithm is written down."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * m & mask
        word = (word ^ word >> 24) * m & mask
        found = found * m & mask ^ word
    if key[whole:]:
        found = (found ^ int.from_bytes(key[whole:], "little")) * m & mask
    found = (found ^ found >> 13) * m & mask
    return found ^ found >> 15


def test_the_hash_is_kafkas() -> None:
    found = murmur2(pa.array(list(KNOWN), pa.binary())).astype(np.int32)
    assert found.tolist() == list(KNOWN.values())


@given(st.lists(st.binary(max_size=40), max_size=50), st.integers(0, 3))
def test_many_at_a_time_are_as_one_at_a_time(keys: list[bytes], skipped: int) -> None:
    array = pa.array([b"before"] * skipped + keys, pa.binary()).slice(skipped)
    assert murmur2(array).tolist() == [plain_murmur2(key) for key in keys]


def test_the_partition_is_the_positive_hash_modulo_the_count() -> None:
    keys = pa.array(list(KNOWN), pa.binary())
    expected = [(value & 0x7FFFFFFF) % 7 for value in KNOWN.values()]
    assert partitions_of_keys(keys, 7).tolist() == expected
    assert Partitioner(7).partitions(keys, len(keys)).tolist() == expected


def test_rows_without_a_key_stay_together_and_take_turns() -> None:
    partitioner = Partitioner(3, first=5)
    assert partitioner.partitions(None, 2).tolist() == [2, 2]
    assert partitioner.partitions(pa.array([None, None], pa.binary()), 2).tolist() == [0, 0]
    mixed = pa.array([None, b"foobar", None], pa.binary())
    keyed = int(partitions_of_keys(pa.array([b"foobar"]), 3)[0])
    assert partitioner.partitions(mixed, 3).tolist() == [1, keyed, 1]


def test_of_very_many_rows_without_a_key_not_all_go_together() -> None:
    partitioner = Partitioner(2, first=1)
    found = partitioner.partitions(None, 2 * TOGETHER + 5).tolist()
    assert found == [1] * TOGETHER + [0] * TOGETHER + [1] * 5
    assert partitioner.partitions(None, 1).tolist() == [0]
    assert partitioner.partitions(None, 0).tolist() == []


@pytest.mark.parametrize("keys", [[], [b""]])
def test_nothing_to_hash(keys: list[bytes]) -> None:
    assert murmur2(pa.array(keys, pa.binary())).tolist() == [plain_murmur2(key) for key in keys]
