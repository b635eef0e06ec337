from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.rows.varints import (
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    BadVarint,
    read_varints,
    varint_sizes,
    write_varints,
    zigzag,
)
from ottla.records.builder import varint

EDGES = [0, -1, 63, -64, 64, -65, 8191, 8192, 2**31 - 1, -(2**31)]
LONG_EDGES = [*EDGES, 2**63 - 1, -(2**63), 2**34, -(2**48)]


def encoded(numbers: list[int]) -> tuple[bytearray, list[int]]:
    data, positions = bytearray(), []
    for number in numbers:
        positions.append(len(data))
        data += varint(number)
    return data, positions


@given(st.lists(st.sampled_from(LONG_EDGES) | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_numbers_of_all_sizes_are_read_and_written(numbers: list[int]) -> None:
    data, positions = encoded(numbers)
    found, behind = read_varints(
        np.frombuffer(data, np.uint8), np.array(positions), VARLONG_BYTES_MAX
    )
    assert found.tolist() == numbers
    assert behind.tolist() == [*positions[1:], len(data)]

    raw = zigzag(np.array(numbers, np.int64))
    sizes = varint_sizes(raw)
    out = np.zeros(len(data), np.uint8)
    write_varints(out, np.array(positions), raw, sizes)
    assert out.tobytes() == bytes(data)


@given(st.lists(st.sampled_from(EDGES) | st.integers(-(2**31), 2**31 - 1), min_size=1))
def test_numbers_of_32_bits(numbers: list[int]) -> None:
    data, positions = encoded(numbers)
    found, _ = read_varints(np.frombuffer(data, np.uint8), np.array(positions))
    assert found.tolist() == numbers


@pytest.mark.parametrize("bytes_max", [VARINT_BYTES_MAX, VARLONG_BYTES_MAX])
def test_a_number_that_does_not_end_is_an_error(bytes_max: int) -> None:
    data = np.frombuffer(b"\x00" + b"\xff" * 20, np.uint8)
    with pytest.raises(BadVarint, match=f"more than {bytes_max} bytes"):
        read_varints(data, np.array([0, 1]), bytes_max)


def test_beyond_the_data_nothing_is_read_that_is_not_there() -> None:
    found, behind = read_varints(np.frombuffer(b"\x02", np.uint8), np.array([0, 10**12]))
    assert found.tolist() == [1, 1]
    assert behind.tolist() == [1, 10**12 + 1]
