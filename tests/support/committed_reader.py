"""What a client with `isolation.level=read_committed` makes of a Fetch answer."""

from __future__ import annotations

from ottla.records.batch import iter_headers
from ottla.records.control import parse_end_txn_marker
from ottla.records.record import iter_records
from ottla.wire.messages.fetch import PartitionData


def read_committed(data: PartitionData) -> list[bytes]:
    """The values that it would hand on. As the Java client: an aborted transaction begins at its
    first offset and ends with the producer's next abort marker."""
    assert isinstance(data.records, memoryview)
    assert data.aborted_transactions is not None, "not read with read_committed"
    to_come = sorted(data.aborted_transactions, key=lambda each: each.first_offset)
    aborted_producers: set[int] = set()
    values: list[bytes] = []
    for position, header in iter_headers(data.records, allow_partial=True):
        batch = data.records[position : position + header.size_bytes]
        while to_come and to_come[0].first_offset <= header.last_offset:
            aborted_producers.add(to_come.pop(0).producer_id)
        if header.is_control:
            marker = parse_end_txn_marker(batch)
            if marker is not None and not marker.is_commit:
                aborted_producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted_producers):
            values += [record.value or b"" for record in iter_records(batch)]
    return values
