from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batch import HEADER_BYTES
from ottla.records.builder import build_batch
from ottla.records.errors import CorruptRecord
from ottla.records.offset_deltas import are_numbered
from ottla.records.record import Record


def data_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records, base_offset=0)[HEADER_BYTES:])


@given(
    st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.sampled_from([0, 1, 60, 200, 9000, 20_000])),
        min_size=1,
        max_size=200,
    )
)
def test_records_of_any_size_and_time(made: list[tuple[int, int]]) -> None:
    records = [
        Record(number, timestamp, None, bytes(size))
        for number, (timestamp, size) in enumerate(made)
    ]
    assert are_numbered(data_of(records), len(records))
    last = records[-1]
    for wrong in (last.offset + 1, last.offset + 10_000, max(0, last.offset - 1)):
        records[-1] = last._replace(offset=wrong)
        assert are_numbered(data_of(records), len(records)) == (wrong == last.offset)


def test_more_records_than_one_slice() -> None:
    records = [Record(number, 0, None, b"v") for number in range(10_000)]
    assert are_numbered(data_of(records), len(records))
    records[9000] = records[9000]._replace(offset=9001)
    assert not are_numbered(data_of(records), len(records))


def test_a_record_that_is_none_inside() -> None:
    with pytest.raises(CorruptRecord):
        are_numbered(b"\x20" + b"\xff" * 16, 1)
