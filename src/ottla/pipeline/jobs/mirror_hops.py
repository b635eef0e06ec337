"""Where a mirrored record came from: one header more, with the cluster and the offset it had there.

A record that was mirrored twice has two, the last hop last. Two things are read from them. A record
that has been in the target cluster before is not copied there again, so that mirrors may go in
circles. And which record of the source a record of the target is: offsets of groups are translated
by that, exactly, and without a topic that keeps pairs of offsets.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

HEADER = "ottla-mirror"


class Hop(NamedTuple):
    cluster_id: str
    """Of the cluster that it was copied from."""
    offset: int
    """That it had there, in the partition of the same topic and number."""

    def text(self) -> str:
        return f"{self.cluster_id}:{self.offset}"

    @classmethod
    def parse(cls, value: bytes | None) -> Hop | None:
        """None for what somebody else has written there."""
        cluster_id, colon, offset = (value or b"").decode(errors="replace").rpartition(":")
        if not colon or not offset.isdecimal():
            return None
        return cls(cluster_id, int(offset))


def last_hops(headers: pa.ListArray) -> list[Hop | None]:
    """Of each record, from the column of headers."""
    found: list[Hop | None] = [None] * len(headers)
    elements = headers.flatten()
    is_hop = pc.equal(elements.field("key"), HEADER)
    records = pc.list_parent_indices(headers).filter(is_hop).to_pylist()
    values = elements.field("value").filter(is_hop).to_pylist()
    for record, value in zip(records, values, strict=True):
        found[record] = Hop.parse(value) or found[record]
    return found
