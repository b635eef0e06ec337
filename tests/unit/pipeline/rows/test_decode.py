from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.rows import decode
from ottla.pipeline.rows.columns import COLUMNS
from ottla.pipeline.rows.decode import AbortedTransactions, Decoded, decode_batches
from ottla.records.batch import ATTRIBUTES_AT, RECORD_COUNT_AT, TimestampType, parse_header
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker
from ottla.records.compression import Compression
from ottla.records.control import EndTxnMarker
from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record, iter_records

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW_MS = 1_700_000_000_000


def decoded(
    content: bytes | bytearray,
    start: int = 0,
    end: int = 1 << 62,
    columns: Sequence[str] = COLUMNS,
    aborted: AbortedTransactions | None = None,
) -> Decoded:
    found = decode_batches(
        memoryview(content),
        topic="clicks",
        partition=3,
        columns=columns,
        start_offset=start,
        end_offset=end,
        aborted=aborted,
    )
    found.batch.validate(full=True)
    return found


def rows(*args: Any, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = decoded(*args, **options).batch.to_pylist()
    return found


def offsets(*args: Any, **options: Any) -> list[int]:
    return [row["offset"] for row in rows(*args, **options)]


def expected(record: Record, timestamp_type: int = 0) -> dict[str, Any]:
    return {
        "key": record.key,
        "value": record.value,
        "topic": "clicks",
        "partition": 3,
        "offset": record.offset,
        "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
        "timestampType": timestamp_type,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
    }


def some(*numbers: int) -> list[Record]:
    return [Record(number, NOW_MS + number, b"k%d" % number, b"v") for number in numbers]


def resealed(batch: bytearray) -> bytearray:
    batch[17:21] = crc32c(memoryview(batch)[ATTRIBUTES_AT:]).to_bytes(4)
    return batch


maybe_bytes = st.none() | st.binary(max_size=3) | st.integers(0, 300).map(bytes)
a_header = st.tuples(st.text(max_size=3), maybe_bytes)


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[bytearray, list[Record], bool]]:
    """With gaps between and within, as a compacted log has them."""
    found = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 4))):
        records = []
        for _ in range(draw(st.integers(1, 5))):
            timestamp = draw(st.integers(-1, 10) | st.integers(-1, 2**42)) + NOW_MS
            headers = tuple(draw(st.lists(a_header, max_size=3)))
            key, value = draw(maybe_bytes), draw(maybe_bytes)
            records.append(Record(offset, timestamp, key, value, headers))
            offset += draw(st.sampled_from([1, 1, 1, 2, 100, 10_000]))
        is_stamped = draw(st.booleans())
        batch = build_batch(
            records,
            compression=draw(st.sampled_from(Compression)),
            timestamp_type=TimestampType(is_stamped),
            base_offset=max(0, records[0].offset - draw(st.integers(0, 3))),
        )
        found.append((batch, records, is_stamped))
    return found


@given(batches(), st.data())
def test_rows_are_what_reading_one_by_one_finds(
    made: list[tuple[bytearray, list[Record], bool]], data: st.DataObject
) -> None:
    content = b"".join(batch for batch, _, _ in made)
    every = [
        expected(record, is_stamped)
        for batch, _, is_stamped in made
        for record in iter_records(bytes(batch))
    ]
    everything = decoded(content)
    assert everything.batch.to_pylist() == every
    assert everything.consumed_bytes == len(content)

    if made:
        first, last = every[0]["offset"], every[-1]["offset"]
        assert everything.next_offset == last + 1
        start, end = sorted(data.draw(st.tuples(*[st.integers(first, last + 1)] * 2)))
        part = decoded(content, start, end)
        assert part.batch.to_pylist() == [row for row in every if start <= row["offset"] < end]
        assert part.next_offset in (end, start, last + 1)
        cut_at = data.draw(st.integers(0, len(content)))
        head = decoded(content[:cut_at])
        assert head.batch.to_pylist() == every[: head.batch.num_rows]
        rest = decoded(content[head.consumed_bytes :], head.next_offset)
        assert head.batch.num_rows + rest.batch.num_rows == len(every)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 50, 64, 128, 192, 9000]), st.sampled_from([1, 15, 16, 90])
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([Compression.NONE, Compression.LZ4]),
)
def test_stretches_of_records_of_one_length(
    stretches: list[tuple[int, int]], compression: Compression
) -> None:
    sizes = [size for size, count in stretches for _ in range(count)]
    records = [Record(index, NOW_MS, None, bytes(size)) for index, size in enumerate(sizes)]
    content = build_batch(records, compression=compression)
    found = decoded(content, columns=["offset", "value"])
    assert found.batch.column("offset").to_pylist() == list(range(len(records)))
    assert [len(value) for value in found.batch.column("value").to_pylist()] == sizes


@pytest.mark.parametrize("number", [0, 1, 30, 58, 59])
def test_one_bad_length_among_many_of_one_length_is_found(number: int) -> None:
    batch = build_batch([Record(index, NOW_MS, None, b"0123456789") for index in range(60)])
    size = (len(batch) - 61) // 60
    for wrong in (0, 2 * size, 2 * size - 3, 0x80):
        broken = batch[:]
        broken[61 + number * size] = wrong
        with pytest.raises(CorruptRecord):
            decoded(resealed(broken))


@pytest.mark.parametrize("columns", [["value"], ["offset", "key"], ["headers"], []])
def test_only_the_columns_that_were_asked_for(columns: list[str]) -> None:
    records = some(0, 1)
    found = rows(build_batch(records), columns=columns)
    if columns:
        wanted = [{name: expected(record)[name] for name in columns} for record in records]
        assert [list(row) for row in found] == [columns, columns]
        assert found == wanted


def test_nothing_is_no_rows_of_the_same_columns() -> None:
    found = decoded(b"", 7)
    assert found.batch.schema.names == list(COLUMNS)
    assert (found.batch.num_rows, found.next_offset, found.consumed_bytes) == (0, 7, 0)


def test_a_gap_at_the_end_is_passed() -> None:
    content = build_batch(some(0, 1)) + build_batch(some(50))
    found = decoded(content, 0, 40)
    assert found.batch.num_rows == 2
    assert found.next_offset == 40
    # A cleaner keeps a batch without records, for what it says of its producer.
    emptied = build_batch(some(60))[:61]
    emptied[8:12] = (49).to_bytes(4)
    emptied[RECORD_COUNT_AT:] = bytes(4)
    found = decoded(build_batch(some(0)) + resealed(emptied))
    assert (found.batch.num_rows, found.next_offset) == (1, 61)


def test_large_and_small_records_together() -> None:
    sizes = [0, 1, 63, 64, 8191, 8192, 100_000, 3_000_000, 2]
    records = [Record(index, NOW_MS, None, bytes(size)) for index, size in enumerate(sizes)]
    for compression in Compression:
        found = rows(build_batch(records, compression=compression), columns=["value"])
        assert [len(row["value"]) for row in found] == sizes


def test_timestamps_that_the_type_cannot_hold_are_null() -> None:
    timestamps = [-1, 0, 2**63 // 1000 - 1, 2**63 // 1000 + 1, 2**62]
    records = [Record(index, stamp, None, b"v") for index, stamp in enumerate(timestamps)]
    found = decoded(build_batch(records)).batch.column("timestamp").cast("int64").to_pylist()
    assert found == [-1000, 0, (2**63 // 1000 - 1) * 1000, None, None]


def test_what_was_aborted_is_left_out_and_what_was_committed_is_not() -> None:
    def written(offset: int, producer_id: int) -> bytearray:
        return build_batch(
            some(offset, offset + 1),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )

    def ended(offset: int, producer_id: int, kind: ControlType) -> bytearray:
        return build_end_txn_marker(
            kind, offset=offset, timestamp=NOW_MS, producer_id=producer_id, producer_epoch=0,
            coordinator_epoch=0,
        )  # fmt: skip

    content = (
        written(0, 1)
        + written(2, 2)
        + build_batch(some(4))
        + ended(5, 1, ControlType.ABORT)
        + written(6, 1)
        + ended(8, 2, ControlType.COMMIT)
        + written(9, 2)
        + ended(11, 1, ControlType.COMMIT)
        + ended(12, 2, ControlType.ABORT)
    )
    aborted = [(2, 9), (1, 0)]
    committed = decoded(content, aborted=AbortedTransactions(aborted))
    assert [row["offset"] for row in committed.batch.to_pylist()] == [2, 3, 4, 6, 7]
    assert committed.next_offset == 13
    assert offsets(content) == [0, 1, 2, 3, 4, 6, 7, 9, 10]
    # A reader that begins in the middle of an aborted transaction.
    middle = decoded(content, 1, aborted=AbortedTransactions(aborted))
    assert [row["offset"] for row in middle.batch.to_pylist()] == [2, 3, 4, 6, 7]
    assert EndTxnMarker(ControlType.ABORT, 0).is_commit is False


def test_much_at_once_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "DECODED_BYTES_AT_ONCE", 1000)
    content = b"".join(
        build_batch([Record(index, NOW_MS, None, bytes(400))], compression=Compression.ZSTD)
        for index in range(8)
    )
    found, start = [], 0
    while content:
        part = decoded(content, start)
        found.append([row["offset"] for row in part.batch.to_pylist()])
        content, start = content[part.consumed_bytes :], part.next_offset
    assert found == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_a_bomb_is_not_blown_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "BATCH_BYTES_MAX", 100_000)
    bomb = build_batch([Record(0, NOW_MS, None, bytes(10**6))], compression=Compression.ZSTD)
    with pytest.raises(Exception, match="more than the 100000 bytes"):
        decoded(bomb)


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_wrong_count_is_refused(count: int) -> None:
    batch = build_batch(some(0, 1))
    batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4] = count.to_bytes(4, signed=True)
    with pytest.raises(CorruptRecord, match="clicks-3 from offset 0"):
        decoded(resealed(batch))


def test_a_wrong_crc_is_refused_and_an_older_format_named() -> None:
    batch = build_batch(some(0, 1))
    batch[-1] ^= 1
    with pytest.raises(CorruptRecord, match="CRC of the batch at 0 is wrong"):
        decoded(batch)
    batch[16] = 1
    with pytest.raises(CorruptRecord, match="magic 2, at 0 it is 1"):
        decoded(batch)


@given(st.data())
def test_broken_bytes_are_refused_or_read_as_one_by_one(data: st.DataObject) -> None:
    records = [*some(0, 1, 2), Record(3, NOW_MS, None, b"v" * 90, (("h", b"x"), ("i", None)))]
    batch = build_batch(records)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(61, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    resealed(batch)
    assert parse_header(batch).record_count == 4
    try:
        one_by_one = [expected(record) for record in iter_records(bytes(batch))]
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            decoded(batch, -(2**40))
    except (OverflowError, ValueError):
        pass  # a timestamp that Python's datetime cannot show
    else:
        assert decoded(batch, -(2**40)).batch.num_rows == len(one_by_one)
