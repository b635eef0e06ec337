from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.pipeline.jobs.mirror_hops import HEADER, Hop, last_hops
from ottla.pipeline.rows.columns import HEADERS_TYPE


def test_a_hop_is_read_as_it_was_written() -> None:
    hop = Hop("q1Sh-9_hQnGmSpi_O8Bvlw", 4_294_967_296)
    assert hop.text() == "q1Sh-9_hQnGmSpi_O8Bvlw:4294967296"
    assert Hop.parse(hop.text().encode()) == hop


@pytest.mark.parametrize(
    "value", [None, b"", b"east", b"east:", b"east:-1", b"east:x", b"\xff:\xff"]
)
def test_what_others_write_in_the_header_is_no_hop(value: bytes | None) -> None:
    assert Hop.parse(value) is None


def test_the_last_hop_of_each_record_counts() -> None:
    headers = pa.array(
        [
            None,
            [("trace", b"1")],
            [(HEADER, b"east:7"), ("trace", b"2")],
            [(HEADER, b"east:7"), (HEADER, b"west:3")],
            [(HEADER, b"east:8"), (HEADER, None)],
            [(HEADER.upper(), b"east:9")],
        ],
        HEADERS_TYPE,
    )
    found = [None, None, Hop("east", 7), Hop("west", 3), Hop("east", 8), None]
    assert last_hops(headers) == found
    assert last_hops(headers.slice(2, 2)) == found[2:4]
    assert last_hops(pa.nulls(2, HEADERS_TYPE)) == [None, None]
